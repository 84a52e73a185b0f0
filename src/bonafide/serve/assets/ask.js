"use strict";
// The page works without this: with it the form stays as it is, a chosen file included, and only the answer changes.
const form = document.getElementById("ask");
const answer = document.getElementById("answer");
const button = form.querySelector("button");
const table = document.getElementById("table");
const file = document.getElementById("file");
const text = document.getElementById("text");

function say(wrong) {
  const said = document.createElement("p");
  said.setAttribute("role", "alert");
  said.textContent = wrong;
  answer.replaceChildren(said);
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (button.disabled) return;
  if (file.files.length && file.files[0].size > Number(file.dataset.most)) {
    say(`The file is too large: at most ${Number(file.dataset.most).toLocaleString("en")} bytes are taken.`);
    return;
  }
  button.disabled = true;
  answer.setAttribute("aria-busy", "true");
  try {
    const response = await fetch(form.action, { method: "POST", body: new FormData(form), headers: { accept: "text/html" } });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const found = page.getElementById("answer") ?? page.getElementById("main");
    answer.replaceChildren(...found.childNodes);
  } catch {
    say("The server does not answer. Is it still running?");
  } finally {
    button.disabled = false;
    answer.removeAttribute("aria-busy");
  }
});

if (table) {
  const own = () => { table.value = ""; };
  file.addEventListener("change", () => { if (file.files.length) own(); });
  text.addEventListener("input", own);
  table.addEventListener("change", () => {
    for (const each of document.querySelectorAll("[data-only]")) each.hidden = each.dataset.only !== table.value;
    if (table.value) file.value = "";
    else form.querySelector("details").open = true;
  });
}
