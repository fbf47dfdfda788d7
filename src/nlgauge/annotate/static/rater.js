"use strict";

// Saves answers as they are given. Every field is sent as the form itself would send it, so the page works without this.

const form = document.querySelector("form[data-api]");
const status = form.querySelector("[data-status]");
const waiting = new Map();
const failed = new Set();
const refused = new Set();
const saving = new Set();
let handingOver = "no";
let leaving = false;

document.documentElement.classList.add("scripted");
status.textContent = "Answers are saved as you give them.";

function tell(element, text, kind) {
  element.textContent = text;
  element.classList.toggle("wrong", kind === "wrong");
  element.classList.toggle("saved", kind === "saved");
}

function fieldsOf(fieldset) {
  const fields = {};
  for (const control of fieldset.elements) {
    if (!control.name || control.name === "go") continue;
    if ((control.type === "radio" || control.type === "checkbox") && !control.checked) continue;
    (fields[control.name] ||= []).push(control.value);
  }
  return fields;
}

function overall() {
  if (failed.size) tell(status, "Not saved. Check the connection, then press Save.", "wrong");
  else if (saving.size || waiting.size) tell(status, "Saving…");
  else if (refused.size) tell(status, "Not everything is saved. The questions above say why.", "wrong");
  else tell(status, "All answers are saved.", "saved");
}

function save(fieldset, fields) {
  const made = saveNow(fieldset, fields).finally(() => {
    saving.delete(made);
    overall();
  });
  saving.add(made);
  overall();
  return made;
}

async function saveNow(fieldset, fields) {
  const state = fieldset.querySelector("[data-state]");
  clearTimeout(waiting.get(fieldset));
  waiting.delete(fieldset);
  const turn = (fieldset.turn = (fieldset.turn || 0) + 1);
  try {
    const body = JSON.stringify({ step: Number(form.dataset.step), fields: fields || fieldsOf(fieldset) });
    const answer = await send(body);
    const found = await answer.json();
    if (turn !== fieldset.turn) return null;
    failed.delete(fieldset);
    refused.delete(fieldset);
    if (!answer.ok) {
      tell(state, `Not saved. ${found.error}`, "wrong");
      (answer.status >= 500 ? failed : refused).add(fieldset);
      return null;
    }
    const wrong = Object.values(found.errors);
    if (wrong.length) refused.add(fieldset);
    tell(state, wrong.length ? `Not saved. ${wrong[0]}` : "Saved", wrong.length ? "wrong" : "saved");
    fieldset.classList.toggle("invalid", wrong.length > 0);
    const note = fieldset.querySelector("[data-note]");
    if (note) note.textContent = found.notes[fieldset.id] || "";
    document.querySelector("[data-missing]").textContent = found.missing;
    return found;
  } catch {
    if (turn === fieldset.turn) {
      failed.add(fieldset);
      tell(state, "Not saved: no connection.", "wrong");
    }
    return null;
  }
}

let last = Promise.resolve();

// One request after the other, so that an earlier answer never overtakes a later one.
function send(body) {
  const request = () =>
    fetch(form.dataset.api, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-CSRF-Token": form.elements.csrf.value },
      body,
      keepalive: body.length < 30000,
    });
  last = last.then(request, request);
  return last;
}

function saveSoon(fieldset, delay) {
  clearTimeout(waiting.get(fieldset));
  waiting.set(fieldset, setTimeout(() => save(fieldset), delay));
  overall();
}

for (const fieldset of form.querySelectorAll("[data-field]")) {
  fieldset.addEventListener("change", (event) => {
    const name = event.target.name || "";
    if (fieldset.querySelector("[data-words]") || fieldset.querySelector("[data-ranking]")) return;
    if (name) save(fieldset);
  });
  const typed = fieldset.querySelector("textarea, input[type=number]");
  if (typed) typed.addEventListener("input", () => saveSoon(fieldset, 800));
  const area = fieldset.querySelector("textarea");
  if (area) {
    const counter = fieldset.querySelector("[data-counter]");
    const count = () => {
      counter.textContent = `${[...area.value.normalize("NFC").trim()].length} of ${area.dataset.most}`;
    };
    area.addEventListener("input", count);
    count();
  }
  const list = fieldset.querySelector("[data-ranking]");
  if (list) prepareRanking(fieldset, list);
}

function prepareRanking(fieldset, list) {
  const rows = () => [...list.children];
  const number = () => rows().forEach((row, index) => (row.querySelector("select").value = String(index + 1)));
  const label = (row) => row.querySelector("b").textContent;
  const refresh = () =>
    rows().forEach((row, index, all) => {
      row.querySelector("[data-up]").setAttribute("aria-disabled", String(index === 0));
      row.querySelector("[data-down]").setAttribute("aria-disabled", String(index === all.length - 1));
    });
  const move = (row, way, button) => {
    const other = way < 0 ? row.previousElementSibling : row.nextElementSibling;
    if (!other) return;
    if (way < 0) other.before(row);
    else other.after(row);
    number();
    refresh();
    button.focus();
    tell(fieldset.querySelector("[data-state]"), `${label(row)} is now number ${rows().indexOf(row) + 1}.`);
    saveSoon(fieldset, 400);
  };
  for (const row of rows()) {
    row.querySelector(".place").hidden = true;
    const moves = document.createElement("div");
    moves.className = "moves";
    for (const [word, way] of [["Up", -1], ["Down", 1]]) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "button small";
      button.textContent = word;
      button.dataset[word.toLowerCase()] = "";
      button.setAttribute("aria-label", `Move ${label(row)} ${word.toLowerCase()}`);
      button.addEventListener("click", () => move(row, way, button));
      button.addEventListener("keydown", (event) => {
        const ways = { ArrowUp: -1, ArrowDown: 1 };
        if (!(event.key in ways)) return;
        event.preventDefault();
        move(row, ways[event.key], button);
      });
      moves.append(button);
    }
    row.append(moves);
  }
  const keep = document.createElement("button");
  keep.type = "button";
  keep.className = "button";
  keep.textContent = "This order is right";
  keep.addEventListener("click", () => {
    number();
    save(fieldset);
  });
  list.after(keep);
  refresh();
}

// The time that the page was in view, for the whole assignment.
const clock = `seconds:${form.dataset.path}`;
let since = document.hidden ? null : Date.now();
let spent = Number(sessionStorage.getItem(clock)) || 0;

function stopClock() {
  if (since !== null) spent += (Date.now() - since) / 1000;
  since = null;
  sessionStorage.setItem(clock, String(spent));
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) stopClock();
  else since = Date.now();
});
addEventListener("pagehide", stopClock);

// Answers that are on their way arrive before the page is handed over, unless that takes too long.
async function submitWhenSaved(button) {
  handingOver = "waits";
  for (const fieldset of [...waiting.keys()]) save(fieldset);
  await Promise.race([Promise.all(saving), new Promise((done) => setTimeout(done, 5000))]);
  handingOver = "goes";
  form.requestSubmit(button);
  handingOver = "no";
}

form.addEventListener("submit", (event) => {
  if (handingOver === "waits" || (handingOver === "no" && (saving.size || waiting.size))) {
    event.preventDefault();
    if (handingOver === "no") submitWhenSaved(event.submitter);
    return;
  }
  leaving = true;
  stopClock();
  form.elements.seconds.value = spent.toFixed(1);
});

addEventListener("beforeunload", (event) => {
  if (!leaving && (saving.size || waiting.size || failed.size)) event.preventDefault();
});
addEventListener("pageshow", (event) => {
  leaving = false;
  if (event.persisted) location.reload();
});

addEventListener("online", () => {
  for (const fieldset of [...failed]) save(fieldset);
});

const problems = document.querySelector("[data-problems]");
if (problems) problems.focus();
