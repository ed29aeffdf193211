// Greedy and beam search, as minitf/decoding/search.py, for one sentence.
//
//     score(y) = log P(y | x) / length_penalty(|y|)
//
// A search is a generator: it yields after each position, so that the page can show what has been found so far.

// ((β + length) / (β + 1))^α; EOS counts in the length, BOS does not.
function length_penalty(length, alpha, beta) { return ((beta + length) / (beta + 1)) ** alpha; }

// The most target tokens, EOS included.
function max_length_of(source, config) {
  const limit = source.filter((id) => id !== PAD && id !== EOS).length + config.max_extra_length;
  return config.max_length === null ? limit : Math.min(limit, config.max_length);
}

// log P of every token.  Shapes: logits [V] -> Float64Array [V]
function log_softmax(logits, temperature = 1) {
  const [V, found] = [logits.length, new Float64Array(logits.length)];
  let [top, total] = [-Infinity, 0];
  for (let i = 0; i < V; i++) top = Math.max(top, logits[i]);
  for (let i = 0; i < V; i++) total += Math.exp((logits[i] - top) / temperature);
  const log_total = Math.log(total);
  for (let i = 0; i < V; i++) found[i] = (logits[i] - top) / temperature - log_total;
  return found;
}

const NEVER = [PAD, UNK, BOS]; // tokens that stand for no text, which search does not choose

// The `count` most probable tokens, best first, equal ones by id: { token, log_probability } each.
function most_probable(log_probabilities, count) {
  const best = [];
  for (let token = 0; token < log_probabilities.length; token++) {
    const log_probability = log_probabilities[token];
    if (best.length === count && !(log_probability > best.at(-1).log_probability)) continue;
    if (NEVER.includes(token)) continue;
    if (best.length === count) best.pop();
    let place = best.length;
    while (place > 0 && log_probability > best[place - 1].log_probability) place--;
    best.splice(place, 0, { token, log_probability });
  }
  return best;
}

function require_numbers(log_probabilities, position) {
  if (!Number.isFinite(log_probabilities[EOS])) {
    throw new Error(`the model gives no finite logits at output position ${position}; its weights have diverged`);
  }
}

// The most probable token at each step; tokens of the prefix are taken as they are. Yields { token, log_probability }.
function* greedy_search(model, source, config, prefix = []) {
  const limit = max_length_of(source, config);
  const state = start_decoding(model, source);
  const tokens = [];
  let total = 0;
  while (tokens.length < limit && tokens.at(-1) !== EOS) {
    const position = tokens.length + 1;
    const log_probabilities = log_softmax(decode_step(model, tokens.at(-1) ?? BOS, state), config.temperature);
    require_numbers(log_probabilities, position);
    const forced = prefix[position - 1];
    const [chosen] = forced === undefined
      ? most_probable(log_probabilities, 1)
      : [{ token: forced, log_probability: log_probabilities[forced] }];
    tokens.push(chosen.token);
    total += chosen.log_probability;
    yield chosen;
  }
  return [hypothesis_of(tokens, total, config)];
}

// A hypothesis of all tokens produced: its EOS, if it has one, counts in the length and is then removed.
function hypothesis_of(tokens, log_probability, config) {
  const finished = tokens.at(-1) === EOS;
  const score = log_probability / length_penalty(tokens.length, config.alpha, config.beta);
  return { tokens: finished ? tokens.slice(0, -1) : tokens, log_probability, score, finished };
}

// Beam search. Yields the tree after each position: nodes { id, parent, token, position, log_probability, fate, score },
// with the fate "alive", "finished" or "pruned", and in the end `reason`, the sentence that says why it stopped.
function* beam_search(model, source, config, prefix = []) {
  const limit = max_length_of(source, config);
  const penalty = (length) => length_penalty(length, config.alpha, config.beta);
  const root = { id: 0, parent: null, token: BOS, position: 0, log_probability: 0, fate: "alive" };
  const tree = { nodes: [root], finished: [], reason: "" };
  const keep = config.beam === 1 ? 1 : 2 * config.beam; // candidates: 2 × beam, so that `beam` go on when as many end
  let alive = [{ node: root, state: start_decoding(model, source) }]; // best first
  for (let position = 1; ; position++) {
    const candidates = best_candidates(model, alive, config, position, keep, prefix[position - 1]);
    const grown = candidates.map(({ beam, token, log_probability }) => {
      const node = { id: tree.nodes.length, parent: alive[beam].node, token, position, log_probability, fate: "pruned" };
      tree.nodes.push(node);
      return { node, state: alive[beam].state };
    });
    collect_finished(tree, grown, config);
    const next = grown.filter(({ node }) => node.token !== EOS).slice(0, config.beam);
    next.forEach(({ node }) => { node.fate = "alive"; });
    alive = next.map(({ node, state }) => ({ node, state: fork(state) }));
    tree.reason = reason_to_stop(tree, alive, config, position, limit, penalty(limit));
    yield tree;
    if (tree.reason) break;
  }
  for (const { node } of alive) node.fate = "left";
  if (tree.finished.length) return tree.finished.map(({ hypothesis }) => hypothesis);
  return alive.slice(0, config.n_best).map(({ node }) => hypothesis_of(tokens_of(node), node.log_probability, config));
}

// The best continuations of all alive hypotheses; of equal ones, that of the lower beam, then the lower token id.
function best_candidates(model, alive, config, position, keep, forced) {
  const found = alive.flatMap(({ node, state }, beam) => {
    const log_probabilities = log_softmax(decode_step(model, node.token, state), config.temperature);
    require_numbers(log_probabilities, position);
    const best = forced === undefined
      ? most_probable(log_probabilities, keep)
      : [{ token: forced, log_probability: log_probabilities[forced] }];
    return best.map((each) =>
      ({ beam, token: each.token, log_probability: node.log_probability + Math.min(0, each.log_probability) }));
  });
  const order = (a, b) => b.log_probability - a.log_probability || a.beam - b.beam || a.token - b.token;
  return found.sort(order).slice(0, keep);
}

// Score the candidates that end; keep the n_best finished hypotheses.
function collect_finished(tree, grown, config) {
  for (const { node } of grown) {
    if (node.token !== EOS) continue;
    node.fate = "finished";
    const hypothesis = hypothesis_of(tokens_of(node), node.log_probability, config);
    node.score = hypothesis.score;
    tree.finished.push({ node, hypothesis });
  }
  tree.finished.sort((a, b) => b.hypothesis.score - a.hypothesis.score); // stable: the earlier of equals stays ahead
  tree.finished.splice(config.n_best);
}

// Why the search ends at this position; "" where it goes on.
//
// A log-probability only falls, and the penalty only grows up to the length limit: best alive log-probability /
// penalty(limit) bounds every later score.
function reason_to_stop(tree, alive, config, position, limit, max_penalty) {
  const worst = tree.finished.length === config.n_best ? tree.finished.at(-1).hypothesis.score : -Infinity;
  const bound = (alive[0]?.node.log_probability ?? -Infinity) / max_penalty;
  if (!alive.length) return "No hypothesis is left: all are finished.";
  if (bound <= worst) {
    return `No unfinished hypothesis can beat the best finished one: its score would be at most ${fixed(bound, 3)}, ` +
      `log P / penalty(${limit}), and the finished one has ${fixed(worst, 3)}.`;
  }
  if (position >= limit) return `The length limit of ${limit} tokens is reached: source tokens + ${config.max_extra_length}.`;
  return "";
}

// The tokens from the root to a node, without BOS.
function tokens_of(node) {
  const tokens = [];
  for (let each = node; each.parent; each = each.parent) tokens.unshift(each.token);
  return tokens;
}

function finish(search) {
  for (;;) {
    const { done, value } = search.next();
    if (done) return value;
  }
}
