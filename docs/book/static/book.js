"use strict";

// Interactive pages in chapters: a button and the key f show one on the whole screen; its theme is that of the book.
function setTheme() {
  for (const frame of document.querySelectorAll(".playable iframe")) {
    const address = `${frame.getAttribute("src").split("#")[0]}#${document.body.dataset.theme ?? "auto"}`;
    if (frame.getAttribute("src") !== address) frame.setAttribute("src", address);
  }
}
function nearestFrame() {
  const middle = (frame) => { const { top, bottom } = frame.getBoundingClientRect(); return Math.abs((top + bottom - innerHeight) / 2); };
  return [...document.querySelectorAll(".playable iframe")].sort((a, b) => middle(a) - middle(b))[0];
}
function enlarge(frame) {
  frame.requestFullscreen().then(() => frame.focus());
}
document.addEventListener("DOMContentLoaded", () => {
  const frames = document.querySelectorAll(".playable iframe");
  if (!frames.length) return;
  for (const frame of frames) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Full screen (f)";
    button.addEventListener("click", () => enlarge(frame));
    frame.parentElement.querySelector("figcaption").append(" ", button);
  }
  document.addEventListener("keydown", (event) => {
    if (event.key !== "f" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    event.preventDefault();
    enlarge(nearestFrame());
  });
  new MutationObserver(setTheme).observe(document.body, { attributeFilter: ["data-theme"] });
  setTheme();
});
