// Pieces of text on a page: as text, never as markup.

// Control characters are invisible: show their symbols.
function visible(text) {
  const picture = (c) => String.fromCodePoint(c === "\u007f" ? 0x2421 : 0x2400 + c.charCodeAt(0));
  return text.replace(/[\u0000-\u001f\u007f]/g, picture);
}
// Marks of direction and of zero width are invisible, too, and may be a whole token: show their numbers.
function visiblePiece(piece) {
  return visible(piece).replace(/[\u0080-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (c) =>
    `⟨U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}
function percent(weight) {
  const share = 100 * weight;
  return share >= 99.95 ? "100 %" : share >= 9.95 ? `${share.toFixed(0)} %` : `${share.toFixed(1)} %`;
}
function fixed(number, digits) { return number.toFixed(digits).replace("-", "−"); }
function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}
function pieceElement(piece) {
  const made = element("bdi");
  if (piece.startsWith("▁")) made.append(element("span", "space", "▁"), visiblePiece(piece.slice(1)));
  else made.textContent = visiblePiece(piece);
  return made;
}
