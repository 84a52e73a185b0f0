// Keys, filters that act at once, and waiting for scores. Every page works without it.
"use strict";

const links = () => [...document.querySelectorAll("a[data-go]")];

function move(step) {
  const all = links();
  if (!all.length) return;
  const at = all.indexOf(document.activeElement);
  const next = at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + step));
  all[next].focus();
}

function press(selector) {
  const found = document.querySelector(selector);
  if (found) found.click();
}

function toggleKeys() {
  const panel = document.getElementById("keys");
  const button = document.querySelector("[data-keys]");
  panel.hidden = !panel.hidden;
  button.setAttribute("aria-expanded", String(!panel.hidden));
}

const actions = {
  j: () => move(1),
  k: () => move(-1),
  n: () => press("[data-next]"),
  p: () => press("[data-prev]"),
  "?": toggleKeys,
  "/": () => {
    const search = document.querySelector("[data-search]");
    if (search) { search.focus(); search.select(); }
  },
  r: () => {
    const row = document.activeElement.closest("tr");
    const rival = row && row.querySelector("[data-rival]");
    if (rival) rival.click();
  },
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const typing = event.target.closest("input, select, textarea");
  if (typing) {
    if (event.key === "Escape") typing.blur();
    return;
  }
  const choice = [...document.querySelectorAll("button[data-key]")].find((each) => each.dataset.key === event.key);
  if (choice && !event.repeat) {
    event.preventDefault();
    choice.click();
  } else if (actions[event.key]) {
    event.preventDefault();
    actions[event.key]();
  }
});

document.querySelector("[data-keys]")?.addEventListener("click", toggleKeys);
for (const each of document.querySelectorAll("[data-submit]")) {
  each.addEventListener("change", () => each.form.requestSubmit());
}
for (const form of document.querySelectorAll("form.choices")) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) event.preventDefault(); // one judgement a pair, however often a key is pressed
    form.dataset.sent = "yes";
  });
}
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form.choices")) delete form.dataset.sent;
});

const waiting = document.querySelector("[data-poll]");
async function poll() {
  try {
    const state = await (await fetch(waiting.dataset.poll)).json();
    if (state.finished) { location.reload(); return; }
    if (state.text) waiting.textContent = state.text;
    else if (state.of) waiting.textContent = `Scoring: ${state.done.toLocaleString("en")} of ${state.of.toLocaleString("en")} …`;
  } catch {
    waiting.textContent = "The explorer does not answer any more.";
    return;
  }
  setTimeout(poll, 600);
}
if (waiting) setTimeout(poll, 600);
