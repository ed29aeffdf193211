// Text to token ids and back, as minitf/data/vocabulary.py: byte-pair encoding by the rules of sentencepiece.

const [PAD, UNK, BOS, EOS] = [0, 1, 2, 3];
const SPACE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000"; // of str.split
const SPACES = new RegExp(`[${SPACE}]+`);
const UNKNOWN = " \u2047 "; // the text of UNK

// The words of a normalised line: NFC, cut at white space.
function words_of(line) {
  return line.normalize("NFC").replaceAll("▁", " ").split(SPACES).filter((word) => word);
}

class Vocabulary {
  // pieces: by id; scores: null for pieces that no merge makes; bytes: ids of the 256 bytes, or none
  constructor({ pieces, scores, bytes }) {
    this.by_id = pieces;
    this.scores = scores;
    this.bytes = bytes;
    this.byte_of = new Map(bytes.map((id, byte) => [id, byte]));
    this.ids = new Map(pieces.map((piece, id) => [piece, id]).filter(([, id]) => scores[id] !== null));
  }

  // Token ids of a line, without BOS and EOS.
  encode(line) { return words_of(line).flatMap((word) => this.encode_word(`▁${word}`)); }

  // Merge the neighbours whose piece has the highest score, of equal ones the first, until no neighbours make a piece.
  encode_word(word) {
    const symbols = [...word];
    const score = (i) => this.scores[this.ids.get(symbols[i] + symbols[i + 1])] ?? -Infinity;
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
    const ids = symbols.flatMap((symbol) => this.ids.get(symbol) ?? this.spelled(symbol));
    return ids.filter((id, i) => id !== UNK || ids[i - 1] !== UNK); // neighbours without a piece are one UNK
  }

  // The bytes of a character that has no piece, or UNK.
  spelled(character) {
    if (!this.bytes.length) return [UNK];
    return [...new TextEncoder().encode(character)].map((byte) => this.bytes[byte]);
  }

  // Text of token ids: PAD, BOS and EOS have none, bytes that do not spell UTF-8 become U+FFFD.
  decode(ids) {
    let text = "";
    for (let i = 0; i < ids.length; i++) {
      const bytes = [];
      while (i < ids.length && this.byte_of.has(ids[i])) bytes.push(this.byte_of.get(ids[i++]));
      text += decoded(bytes);
      if (i < ids.length && ![PAD, BOS, EOS].includes(ids[i])) text += ids[i] === UNK ? UNKNOWN : this.by_id[ids[i]];
    }
    return text.replaceAll("▁", " ").split(SPACES).filter((word) => word).join(" ");
  }

  pieces(ids) { return ids.map((id) => this.by_id[id]); }
}

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
