"use strict";

// Marking words: by mouse or finger over the words, or by arrow keys, Space and Shift. The server makes marks of words.

function prepareSpans(fieldset, area) {
  const boxes = [...area.querySelectorAll("input")];
  const marks = fieldset.querySelector("[data-marks]");
  const none = fieldset.querySelector("[data-none]");
  const state = fieldset.querySelector("[data-state]");
  const kinds = [...fieldset.querySelectorAll(".kinds input")];
  let from = null;
  let moved = false;

  fieldset.querySelector(".keys").hidden = false;
  boxes.forEach((box, index) => (box.tabIndex = index === 0 ? 0 : -1));

  function focus(index) {
    if (index < 0 || index >= boxes.length) return;
    boxes.forEach((box, place) => (box.tabIndex = place === index ? 0 : -1));
    boxes[index].focus();
  }

  function tick(first, last) {
    const [low, high] = first < last ? [first, last] : [last, first];
    boxes.forEach((box, index) => (box.checked = index >= low && index <= high));
  }

  area.addEventListener("keydown", (event) => {
    const at = boxes.indexOf(document.activeElement);
    const back = getComputedStyle(area).direction === "rtl" ? 1 : -1;
    const ways = { ArrowLeft: back, ArrowRight: -back, ArrowUp: -1, ArrowDown: 1 };
    if (event.key === "Enter") {
      event.preventDefault();
      mark();
      return;
    }
    const target = event.key === "Home" ? 0 : event.key === "End" ? boxes.length - 1 : at + (ways[event.key] || 0);
    if (at < 0 || target === at) return;
    event.preventDefault();
    if (event.shiftKey && boxes[target]) {
      boxes[at].checked = true;
      boxes[target].checked = true;
    }
    focus(target);
  });

  const wordAt = (event) => {
    const label = document.elementFromPoint(event.clientX, event.clientY)?.closest?.(".word");
    return label ? boxes.indexOf(label.querySelector("input")) : -1;
  };
  area.addEventListener("pointerdown", (event) => {
    from = wordAt(event);
    moved = false;
    if (event.pointerType === "mouse") event.preventDefault();
  });
  area.addEventListener("pointermove", (event) => {
    if (from === null || from < 0) return;
    const to = wordAt(event);
    if (to < 0 || (to === from && !moved)) return;
    moved = true;
    tick(from, to);
  });
  addEventListener("pointerup", () => (from = null));
  addEventListener("pointercancel", () => (from = null));
  area.addEventListener(
    "click",
    (event) => {
      if (moved) event.preventDefault();
      moved = false;
    },
    true,
  );

  function draw(found) {
    const spans = found.marks[fieldset.id];
    boxes.forEach((box, index) => {
      const marked = spans.some((one) => one.first <= index && index <= one.last);
      box.checked = false;
      box.closest(".word").classList.toggle("marked", marked);
    });
    marks.replaceChildren(
      ...spans.map((one) => {
        const row = document.createElement("li");
        const quoted = document.createElement("q");
        quoted.dir = "auto";
        quoted.textContent = one.text;
        const kind = document.createElement("bdi");
        kind.textContent = one.kind;
        const button = document.createElement("button");
        button.type = "button";
        button.className = "button small";
        button.textContent = "Take away";
        button.setAttribute("aria-label", `Take away the mark on ${one.text}`);
        button.addEventListener("click", () => change({ [`${fieldset.id}.remove`]: [one.value] }));
        row.append(quoted, " ", kind, " ", button);
        return row;
      }),
    );
    none.checked = spans.length === 0;
  }

  async function change(fields) {
    const found = await save(fieldset, fields);
    if (found && !Object.keys(found.errors).length) draw(found);
    return found;
  }

  function mark() {
    const ticked = boxes.filter((box) => box.checked).map((box) => box.value);
    if (!ticked.length) {
      tell(state, "Tick words first.", "wrong");
      return;
    }
    const kind = kinds.filter((one) => one.checked).map((one) => one.value);
    none.checked = false;
    const fields = { [`${fieldset.id}.word`]: ticked };
    if (kind.length) fields[`${fieldset.id}.kind`] = kind;
    change(fields);
  }

  fieldset.querySelector("[data-mark]").addEventListener("click", (event) => {
    event.preventDefault();
    mark();
  });
  none.addEventListener("change", () => {
    if (none.checked) change({ [`${fieldset.id}.none`]: ["yes"] });
  });
  for (const box of marks.querySelectorAll("input")) {
    box.addEventListener("change", () => change({ [box.name]: [box.value] }));
  }
}

for (const area of document.querySelectorAll("[data-words]")) prepareSpans(area.closest("[data-field]"), area);
