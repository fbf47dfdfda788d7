"""Link Grammar through its C library: a sentence is grammatical if all of its words link (Sleator and Temperley 1993).

Debian has it as liblink-grammar5 with link-grammar-dictionaries-en. There is no time limit, since a verdict must not
depend on the machine's speed; callers limit the number of words instead.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import threading
from functools import lru_cache
from typing import Any

from nlgauge.errors import ModelError

_LIBRARY = "liblink-grammar.so.5"
_MOST_LINKAGES = 100
_ADVICE = "on Debian and Ubuntu: apt install link-grammar; or name another filter, such as grammar=none"
_POINTERS = ("dictionary_create_lang", "parse_options_create", "sentence_create")
_lock = threading.Lock()


class LinkParser:
    """The English dictionary and the settings of the parser; made once per process."""

    def __init__(self) -> None:
        self._library: Any = _loaded_library()
        for name in _POINTERS:
            getattr(self._library, name).restype = ctypes.c_void_p
        self._library.linkgrammar_get_version.restype = ctypes.c_char_p
        self._library.linkgrammar_get_dict_version.restype = ctypes.c_char_p
        self._library.lg_error_set_handler.restype = ctypes.c_void_p
        # Without a handler, messages are collected instead of printed; they are discarded after each sentence.
        self._library.lg_error_set_handler(None, None)
        self._dictionary = ctypes.c_void_p(self._library.dictionary_create_lang(b"en"))
        if not self._dictionary:
            found = "Link Grammar is installed, but its English dictionary is not"
            raise ModelError(f"{found}; expected link-grammar-dictionaries-en; {_ADVICE}")
        self._options = ctypes.c_void_p(self._library.parse_options_create())
        for setting, value in {
            "verbosity": 0,
            "max_parse_time": -1,
            "max_memory": -1,
            "spell_guess": 0,
            "min_null_count": 0,
            "max_null_count": 0,
            "linkage_limit": _MOST_LINKAGES,
            "repeatable_rand": 1,
        }.items():
            getattr(self._library, f"parse_options_set_{setting}")(self._options, value)

    @property
    def version(self) -> str:
        """The version of the library, such as 5.12.0."""
        text: bytes = self._library.linkgrammar_get_version()
        return text.decode().rpartition("-")[2]

    @property
    def dictionary_version(self) -> str:
        """The version of the English dictionary, such as 5.11.0."""
        text: bytes = self._library.linkgrammar_get_dict_version(self._dictionary)
        return text.decode()

    def links(self, sentence: str) -> bool:
        """Whether a sentence has a linkage that leaves out no word."""
        text = _plain(sentence)
        if not any(map(str.isalnum, text)):  # the library aborts the process over a sentence without words
            return False
        with _lock:
            made = ctypes.c_void_p(self._library.sentence_create(text.encode(), self._dictionary))
            try:
                if self._library.sentence_split(made, self._options) < 0:
                    return False
                self._library.sentence_parse(made, self._options)
                return bool(self._library.sentence_num_valid_linkages(made) > 0)
            finally:
                self._library.sentence_delete(made)
                self._library.lg_error_clearall()


@lru_cache(maxsize=1)
def link_parser() -> LinkParser:
    """The parser of this process; a missing one raises an error with advice."""
    return LinkParser()


def _plain(sentence: str) -> str:
    """A sentence with single spaces, and without non-printing characters."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in sentence).split())


def _loaded_library() -> Any:
    for name in (_LIBRARY, ctypes.util.find_library("link-grammar")):
        try:
            return ctypes.CDLL(name) if name else None
        except OSError:
            continue
    raise ModelError(f"library {_LIBRARY} not found; expected Link Grammar 5; {_ADVICE}")
