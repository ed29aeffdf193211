"use strict";

// The button that switches between the system's theme, light and dark.
const themes = ["auto", "light", "dark"];
const themeButton = document.getElementById("theme");

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

function data(id) {
  return JSON.parse(document.getElementById(id).textContent);
}
