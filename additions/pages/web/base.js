"use strict";

const $ = (id) => document.getElementById(id);

// The JSON, or the decompressed bytes, of a script element.
function data(id) { return JSON.parse($(id).textContent); }
function from_base64(text) { return Uint8Array.from(atob(text), (c) => c.charCodeAt(0)); }
async function unpacked(id) {
  const stream = new Blob([from_base64($(id).textContent)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

// ---- The button that switches between the system's theme, light and dark ------------------------------------------

const themes = ["auto", "light", "dark"];
const themeButton = $("theme");

// The theme is the fragment of the address, so that it survives a reload.
function showTheme(theme) {
  if (location.hash.slice(1) !== theme) location.replace(`#${theme}`);
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  themeButton.textContent = `Theme: ${theme}`;
  document.dispatchEvent(new Event("themechange"));
}

themeButton.addEventListener("click", () => {
  const now = document.documentElement.dataset.theme ?? "auto";
  showTheme(themes[(themes.indexOf(now) + 1) % themes.length]);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
  document.dispatchEvent(new Event("themechange")));

function startTheme() {
  const wanted = location.hash.slice(1);
  showTheme(themes.includes(wanted) ? wanted : "auto");
}

function isDark() {
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}
