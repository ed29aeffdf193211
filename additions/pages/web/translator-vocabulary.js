// Text to token ids and back, as minitf/data/vocabulary.py and piece_vocabulary.py, by the rules of sentencepiece.

const [PAD, UNK, BOS, EOS] = [0, 1, 2, 3];
const SPACE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000"; // of str.split
const SPACES = new RegExp(`[${SPACE}]+`);
const LANGUAGE = new RegExp(`^[${SPACE}]*(>>[^<>${SPACE}]+<<)`); // the code before a line for a multilingual model
const UNKNOWN = " \u2047 "; // the text of UNK
const UNKNOWN_PENALTY = 10; // by which the score of an unknown character is below the least of all pieces

function words_of(line) { return line.split(SPACES).filter((word) => word); }

class Vocabulary {
  // rules: those of segmentation.py
  constructor(rules) {
    this.rules = rules;
    this.by_id = rules.pieces;
    this.ids = new Map(rules.pieces.map((piece, id) => [piece, id]).slice(4));
    if (!rules.scores) return;
    this.scores = new Map(Object.entries(rules.others));
    rules.scores.forEach((score, id) => { if (score !== null) this.scores.set(rules.pieces[id], score); });
    this.longest = Math.max(...Array.from(this.scores.keys(), (piece) => piece.length));
    this.least = Math.min(...this.scores.values());
    const bytes = rules.bytes ? Array.from({ length: 256 }, (_, byte) => hexadecimal(byte)) : [];
    this.byte_of = new Map(bytes.map((piece, byte) => [this.ids.get(piece), byte]));
    if (rules.trie) this.trie = new Uint32Array(from_base64(rules.trie).buffer);
    if (rules.trie) this.texts = from_base64(rules.texts);
  }

  // Token ids of a line, without BOS and EOS.
  encode(line) {
    const code = this.rules.codes && LANGUAGE.exec(line);
    if (!code || !this.ids.has(code[1])) return this.cut(line).map((piece) => this.ids.get(piece) ?? UNK);
    return [this.ids.get(code[1]), ...this.encode(line.slice(code[0].length))];
  }

  // The words that have a part without a piece, which the model has not learned.
  unknown_words(line) {
    return words_of(line).filter((word) => this.encode(word).some((id) => id === UNK || this.byte_of?.has(id)));
  }

  cut(line) {
    const { kind, composed, bytes } = this.rules;
    if (kind === "words") return words_of(line);
    if (kind === "characters") return [...words_of(line).join(this.ids.has(" ") ? " " : "▁")];
    const text = composed ? words_of(line.normalize("NFC").replaceAll("▁", " ")).join(" ") : this.normalised(line);
    const escaped = `▁${text.replaceAll(" ", "▁")}`.replace(/▁+$/, "");
    const symbols = kind === "unigram" ? this.best_cut(escaped) : escaped.split(/(?=▁)/).flatMap((word) => this.merged(word));
    const pieces = [];
    let isUnknown = false; // neighbours without a piece are one
    for (const symbol of symbols) {
      const wasUnknown = isUnknown;
      isUnknown = !this.scores.has(symbol);
      if (isUnknown && bytes) pieces.push(...Array.from(new TextEncoder().encode(symbol), hexadecimal));
      else if (isUnknown && wasUnknown) pieces.push(pieces.pop() + symbol);
      else pieces.push(symbol);
    }
    return pieces;
  }

  // Merge the neighbours whose piece has the highest score, of equal ones the first, until no neighbours make a piece.
  merged(word) {
    const symbols = [...word];
    const score = (i) => this.scores.get(symbols[i] + symbols[i + 1]) ?? -Infinity;
    const scores = symbols.slice(1).map((_, i) => score(i)); // of symbol i and the next one
    for (;;) {
      let best = 0;
      for (let i = 1; i < scores.length; i++) if (scores[i] > scores[best]) best = i;
      if (!(scores[best] > -Infinity)) break;
      symbols.splice(best, 2, symbols[best] + symbols[best + 1]);
      scores.splice(best, 1);
      if (best > 0) scores[best - 1] = score(best - 1);
      if (best < scores.length) scores[best] = score(best);
    }
    return symbols;
  }

  // The cut with the largest sum of scores (Viterbi), in float32 as sentencepiece.
  best_cut(text) {
    const characters = [...text];
    const best = [{ score: 0 }]; // of the first i characters
    const offer = (from, piece, to, own) => {
      const score = Math.fround(own + best[from].score);
      if (!best[to] || score > best[to].score) best[to] = { score, from, piece };
    };
    for (let from = 0; from < characters.length; from++) {
      let [piece, isCharacterKnown] = ["", false];
      for (let to = from + 1; to <= characters.length && piece.length < this.longest; to++) {
        piece += characters[to - 1];
        if (!this.scores.has(piece)) continue;
        offer(from, piece, to, this.scores.get(piece));
        isCharacterKnown ||= to === from + 1;
      }
      if (!isCharacterKnown) offer(from, characters[from], from + 1, this.least - UNKNOWN_PENALTY);
    }
    const pieces = [];
    for (let at = characters.length; at > 0; at = best[at].from) pieces.unshift(best[at].piece);
    return pieces;
  }

  // Replace the longest bytes that the trie has, as the model's normalisation; runs of spaces are one.
  //
  // The trie is one of Darts: a unit has the place of its children, or that of a text; Source: sentencepiece, darts.h
  normalised(line) {
    if (!this.trie) return line.replace(/ +/g, " ").replace(/^ /, "");
    const bytes = new TextEncoder().encode(line);
    const made = [];
    const place = (unit) => (unit >>> 10) << ((unit & 512) >> 6);
    for (let at = 0; at < bytes.length;) {
      let [node, end, text] = [place(this.trie[0]), 0, 0];
      for (let i = at; i < bytes.length; i++) {
        node ^= bytes[i];
        const unit = this.trie[node];
        if ((unit & 0x800000ff) !== bytes[i]) break;
        node ^= place(unit);
        if (unit & 256) [end, text] = [i + 1, this.trie[node] & 0x7fffffff];
      }
      if (!end) {
        do made.push(bytes[at++]); while ((bytes[at] & 0xc0) === 0x80); // the character as it is
      } else {
        for (; this.texts[text]; text++) made.push(this.texts[text]);
        at = end;
      }
    }
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(made)).replace(/ +/g, " ").replace(/^ /, "");
  }

  // Text of token ids: PAD, BOS and EOS have none, bytes that do not spell UTF-8 become U+FFFD.
  decode(ids) {
    const { kind, joiner } = this.rules;
    const shown = ids.filter((id) => ![PAD, BOS, EOS].includes(id));
    const named = shown.map((id) => (id === UNK ? UNKNOWN.trim() : this.by_id[id]));
    if (kind === "characters") return words_of(named.join("").replaceAll("▁", " ")).join(" ");
    if (kind === "words") {
      const text = named.join(" ");
      return joiner ? ` ${text} `.replaceAll(`${joiner} `, "").replaceAll(` ${joiner}`, "").trim() : text;
    }
    const row = this.rules.composed ? ids : shown; // special tokens come between bytes, or do not
    let text = "";
    for (let i = 0; i < row.length; i++) {
      const bytes = [];
      while (i < row.length && this.byte_of.has(row[i])) bytes.push(this.byte_of.get(row[i++]));
      text += decoded(bytes);
      if (i < row.length && ![PAD, BOS, EOS].includes(row[i])) text += row[i] === UNK ? UNKNOWN : this.by_id[row[i]];
    }
    return words_of(text.replaceAll("▁", " ")).join(" ");
  }

  pieces(ids) { return ids.map((id) => this.by_id[id]); }
}

function hexadecimal(byte) { return `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`; }

// UTF-8 as text; each byte that does not belong to a character is a U+FFFD of its own.
function decoded(bytes) {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let text = "";
  for (let i = 0; i < bytes.length;) {
    const length = bytes[i] < 0x80 ? 1 : bytes[i] >= 0xf0 ? 4 : bytes[i] >= 0xe0 ? 3 : 2;
    try {
      text += decoder.decode(Uint8Array.from(bytes.slice(i, i + length)));
      i += length;
    } catch {
      text += "\ufffd";
      i++;
    }
  }
  return text;
}
