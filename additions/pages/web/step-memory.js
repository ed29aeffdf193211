"use strict";

// The timeline: phases, bytes alive at each moment grouped by purpose, the peak and the cursor.
const stacked = memory.reasons.map(() => new Float64Array(events.length));
for (const buffer of memory.buffers) {
  buffer.reasons.forEach(([from, reason], i) => {
    const until = buffer.reasons[i + 1]?.[0] ?? buffer.died;
    for (let event = from; event < until; event++) stacked[reason][event] += buffer.bytes;
  });
}

// The colour of a class of the style sheet in the theme of now.
function resolved(name) {
  const probe = document.body.appendChild(h("i", { class: name, hidden: true }));
  const colour = getComputedStyle(probe).backgroundColor;
  probe.remove();
  return colour;
}
function reasonAt(buffer, event) {
  let found = null;
  for (const [from, reason] of buffer.reasons) if (from <= event) found = reason;
  return found;
}
// Arrays alive at an event, the largest first, with the reason that holds each.
function holders(event) {
  return memory.buffers.map((buffer, number) => ({ buffer, number, reason: reasonAt(buffer, event) }))
    .filter(({ buffer, reason }) => buffer.born <= event && event < buffer.died && reason !== null)
    .sort((a, b) => b.buffer.bytes - a.buffer.bytes);
}

function drawMemory() {
  const canvas = $("memory");
  const { width, height } = $("chart").getBoundingClientRect();
  const ratio = Math.min(devicePixelRatio || 1, 2);
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const top = memory.bytes[peak] || 1;
  const colours = memory.reasons.map((_, i) => resolved(`reason-${i}`));
  const base = new Float64Array(events.length);
  const x = (event) => event * width / events.length;
  const y = (bytes) => height - bytes / top * (height - 12);
  stacked.forEach((level, reason) => {
    context.beginPath();
    context.moveTo(0, y(0));
    for (let i = 0; i < events.length; i++) {
      context.lineTo(x(i), y(base[i] + level[i]));
      context.lineTo(x(i + 1), y(base[i] + level[i]));
    }
    for (let i = events.length - 1; i >= 0; i--) {
      context.lineTo(x(i + 1), y(base[i]));
      context.lineTo(x(i), y(base[i]));
    }
    context.fillStyle = colours[reason];
    context.fill();
    for (let i = 0; i < events.length; i++) base[i] += level[i];
  });
  canvas.setAttribute("aria-label", `Memory over the step: the peak is ${bytesText(top)}, in ${eventName(peak)} ` +
    `${events[peak].kind}, moment ${peak + 1} of ${events.length}`);
  const label = $("peak");
  label.textContent = `peak ${bytesText(top)}`;
  const at = (peak + 0.5) / events.length;
  label.style.left = `${at * 100}%`;
  label.classList.toggle("left", at > 0.8);
}
function markMemory() {
  const now = state.at;
  $("cursor").style.left = `${(now + 0.5) / events.length * 100}%`;
  const rows = memory.reasons.map((reason, i) => h("li", {}, h("i", { class: `swatch reason-${i}` }), h("span", {}, reason), h("b", {}, bytesText(stacked[i][now]))));
  $("alive").replaceChildren(
    h("p", {}, h("b", {}, bytesText(memory.bytes[now])), ` alive${now === peak ? ", the peak" : `, ${Math.round(memory.bytes[now] / (memory.bytes[peak] || 1) * 100)} % of the peak`}`),
    h("ul", {}, rows));
}
function startMemory() {
  $("phases").replaceChildren(...spans.map(({ phase, first, last }) => h("button", { type: "button", class: `phase phase-${phase}`, tabindex: -1,
    "aria-label": `to the ${PHASES[phase]} phase`, title: `${PHASES[phase]}: ${plural(last - first + 1, "moment")}`, onclick: () => go(first) }, h("span", {}, (last - first + 1) / events.length > 0.06 ? PHASES[phase] : ""))));
  [...$("phases").children].forEach((each, i) => { each.style.flexGrow = spans[i].last - spans[i].first + 1; });
  const chart = $("chart");
  const at = (event) => {
    const box = chart.getBoundingClientRect();
    go(Math.floor((event.clientX - box.left) / box.width * events.length));
  };
  chart.addEventListener("pointerdown", (event) => { pause(); chart.setPointerCapture(event.pointerId); at(event); });
  chart.addEventListener("pointermove", (event) => { if (chart.hasPointerCapture(event.pointerId)) at(event); });
  $("position").max = events.length - 1;
  $("position").addEventListener("input", (event) => { pause(); go(+event.target.value); });
}
