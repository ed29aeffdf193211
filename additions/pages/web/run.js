"use strict";

// The charts are drawn in Python; this shows the values under the pointer, in all charts at once.
const charts = data("charts");
const sections = [...document.querySelectorAll(".chart")].filter((each) => each.querySelector("svg"));
const [LEFT, RIGHT, WIDTH, TOP, FLOOR] = [84, 12, 640, 12, 222]; // as in learning_curves.py
const NAMESPACE = "http://www.w3.org/2000/svg";

function lastStep(section) {
  return Math.max(1, ...charts[+section.dataset.chart].flatMap(({ steps }) => steps.slice(-1)));
}
function nearest(steps, wanted) {
  let best = 0;
  steps.forEach((step, i) => { if (Math.abs(step - wanted) < Math.abs(steps[best] - wanted)) best = i; });
  return best;
}
function formatted(value) {
  return Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : `${+value.toPrecision(4)}`;
}

function readAll(step) {
  for (const section of sections) {
    const shown = charts[+section.dataset.chart].filter(({ steps }) => steps.length);
    const last = lastStep(section);
    const at = Math.min(step, last);
    const cursor = section.querySelector(".cursor") ?? section.querySelector("svg").appendChild(line());
    const x = LEFT + (at / last) * (WIDTH - LEFT - RIGHT);
    cursor.setAttribute("d", `M${x},${TOP}V${FLOOR}`);
    const parts = shown.map(({ name, steps, values }) => {
      const i = nearest(steps, at);
      const elsewhere = steps[i] === Math.round(at) ? "" : ` (step ${steps[i].toLocaleString("en")})`;
      return `${name} ${formatted(values[i])}${elsewhere}`;
    });
    section.querySelector(".reading").textContent = `step ${Math.round(at).toLocaleString("en")}: ${parts.join(", ")}`;
  }
}
function line() {
  const made = document.createElementNS(NAMESPACE, "path");
  made.setAttribute("class", "cursor");
  return made;
}
function clearAll() {
  for (const section of sections) {
    section.querySelector(".cursor")?.remove();
    section.querySelector(".reading").textContent = "";
  }
}

let current = null;
for (const section of sections) {
  section.addEventListener("pointermove", (event) => {
    const box = section.querySelector("svg").getBoundingClientRect();
    const share = ((event.clientX - box.left) / box.width * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT);
    current = Math.min(1, Math.max(0, share)) * lastStep(section);
    readAll(current);
  });
  section.addEventListener("pointerleave", clearAll);
  section.addEventListener("blur", clearAll);
  section.addEventListener("keydown", (event) => {
    const last = lastStep(section);
    const moved = { ArrowLeft: (current ?? last) - last / 50, ArrowRight: (current ?? 0) + last / 50, Home: 0,
      End: last }[event.key];
    if (moved === undefined) return;
    event.preventDefault();
    current = Math.min(last, Math.max(0, moved));
    readAll(current);
  });
}

// Show the age of the page; a running run whose page is no longer updated may have been killed.
const times = data("times");
const updated = $("updated");
const status = $("status");
const wasTraining = status.textContent === "training";

function showAge() {
  const age = Math.max(0, Date.now() / 1000 - +updated.getAttribute("datetime"));
  const [limit, unit] = [[86400, "days"], [3600, "h"], [60, "min"], [1, "s"]].find(([size]) => age >= size) ?? [1, "s"];
  updated.title = new Date(1000 * +updated.getAttribute("datetime")).toLocaleString();
  updated.textContent = `updated ${Math.floor(age / limit)} ${unit} ago`;
  if (wasTraining && age > times.silent_s) {
    status.textContent = "silent";
    status.className = "pill silent";
    const problem = $("problem");
    problem.hidden = false;
    problem.textContent = "The page has not been updated for a while: the run may have been killed, or it writes its log " +
      "rarely.";
  }
}
showAge();
setInterval(showAge, 1000);

// Reload the page of a running run, unless a reader is looking at values of a chart.
if (wasTraining) {
  setInterval(() => {
    if (!document.hidden && !document.querySelector(".cursor")) location.reload();
  }, 1000 * times.refresh_s);
}
startTheme();
