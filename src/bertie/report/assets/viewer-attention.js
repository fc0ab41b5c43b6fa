// Attention: a grid of layers and heads to choose from, the chosen one's map, and the same as lines between tokens.
"use strict";

bertie.kinds["viewer-attention"] = (element, data, words) => {
  const { make } = bertie;
  const { say, percent, pickText, rove } = bertie.viewer;
  const FINEST = 65535; // stands for a probability of 1
  const ROW = 24; // pixels of a token in the list
  const FAINT = 0.03; // lines of less are left out while no token is chosen
  const SIDES = ["A", "B"];
  const state = { text: 0, layer: null, head: null, row: null, column: null, between: "all" };
  let text, size, numbers, map;
  let margin = 0, cell = 0; // of the map, in pixels
  // How strong the colour of a probability is: the square root, so that small ones are seen.
  const strength = (probability) => Math.sqrt(probability);

  const nameOf = (layer, head) => say(head === data.heads ? words.mean : words.head, { layer: layer + 1, head: head + 1 });
  const isBetween = (row, column) => state.between === "all"
    || state.between === `${SIDES[text.segments[row]]} ${SIDES[text.segments[column]]}`;

  const readout = make("p", { class: "viewer-readout", "aria-live": "polite" });
  const picker = make("div", { class: "viewer-picker", role: "group", "aria-label": words.heads });
  const hover = make("p", { class: "viewer-hint viewer-hover", "aria-hidden": "true" });
  const canvas = make("canvas", { tabindex: "0", role: "img", class: "viewer-map" });
  const lines = make("div", { class: "viewer-lines" });
  const between = make("select");
  const betweenLabel = make("label", {}, `${words.between} `, between);
  const tools = make("div", { class: "tools" }, ...pickText(data.texts, words.text, openText), betweenLabel);
  element.append(
    tools,
    make("p", { class: "viewer-hint" }, words.picker), picker, readout,
    make("div", { class: "parts" },
      make("div", {}, make("p", { class: "viewer-hint" }, words.map), scale(), canvas, hover),
      make("div", {}, make("p", { class: "viewer-hint" }, words.lines), make("div", { class: "viewer-scroll" }, lines))),
  );

  for (const pair of ["all", "A A", "A B", "B A", "B B"]) {
    between.append(make("option", { value: pair }, pair === "all" ? words.all : pair.replace(" ", " → ")));
  }
  between.addEventListener("change", () => { state.between = between.value; drawLines(); });

  function openText(number) {
    text = data.texts[number];
    size = text.tokens.length;
    numbers = decode(text.maps);
    Object.assign(state, { text: number, row: null, column: null, between: "all" });
    between.value = "all";
    betweenLabel.hidden = !text.segments.includes(1);
    buildPicker();
    buildLines();
    if (state.layer === null) chooseNumber(strongest());
    else choose(state.layer, state.head);
  }

  // Least byte first, as every machine has it that runs a browser.
  function decode(base64) {
    return new Uint16Array(Uint8Array.from(atob(base64), (character) => character.charCodeAt(0)).buffer);
  }

  // The probabilities of a head, or for head number data.heads the mean of all.
  function mapOf(layer, head) {
    const found = new Float64Array(size * size);
    const [first, last] = head === data.heads ? [0, data.heads] : [head, head + 1];
    for (let one = first; one < last; one++) {
      const start = (layer * data.heads + one) * size * size;
      for (let at = 0; at < found.length; at++) found[at] += numbers[start + at] / FINEST / (last - first);
    }
    return found;
  }

  function buildPicker() {
    picker.replaceChildren();
    picker.style.gridTemplateColumns = `repeat(${data.heads + 1}, minmax(1.45rem, 2.25rem))`;
    const buttons = [];
    for (let layer = 0; layer < data.layers; layer++) {
      for (let head = 0; head <= data.heads; head++) {
        const button = make("button", { type: "button", "aria-label": nameOf(layer, head), title: nameOf(layer, head) });
        if (head === data.heads) button.textContent = "∅";
        button.dataset.focus = focus(mapOf(layer, head));
        buttons.push(button);
      }
    }
    picker.append(...buttons);
    rove(buttons, data.heads + 1, chooseNumber);
    paintPicker();
  }

  // How few tokens a head looks at: the mean of each row's largest probability.
  function focus(one) {
    let sum = 0;
    for (let row = 0; row < size; row++) sum += Math.max(...one.subarray(row * size, (row + 1) * size));
    return sum / size;
  }

  // A first head in which there is something to see.
  function strongest() {
    const strengths = [...picker.children].map((button) => Number(button.dataset.focus));
    return strengths.indexOf(Math.max(...strengths));
  }

  function chooseNumber(number) {
    choose(Math.floor(number / (data.heads + 1)), number % (data.heads + 1));
  }

  function paintPicker() {
    for (const button of picker.children) button.style.backgroundColor = bertie.colour("series-1", 0.08 + 0.72 * button.dataset.focus);
  }

  function choose(layer, head) {
    Object.assign(state, { layer, head });
    map = mapOf(layer, head);
    [...picker.children].forEach((button, number) => {
      const chosen = number === layer * (data.heads + 1) + head;
      button.setAttribute("aria-pressed", chosen);
      button.tabIndex = chosen ? 0 : -1;
    });
    drawAll();
  }

  function drawAll() { drawMap(); drawLines(); tell(); }

  function scale() {
    const steps = [0, 0.01, 0.1, 0.25, 0.5, 1];
    const list = make("ul", { class: "viewer-scale", "aria-hidden": "true" }, ...steps.map((step) => make("li", {}, percent(step, 0))));
    const paint = () => steps.forEach((step, number) => {
      list.children[number].style.borderBottomColor = bertie.colour("series-1", strength(step));
    });
    paint();
    bertie.onTheme(paint);
    return list;
  }

  function drawMap() {
    const width = Math.max(240, Math.min(canvas.parentElement.clientWidth, 620));
    const ratio = window.devicePixelRatio || 1;
    const context = canvas.getContext("2d");
    const font = Math.max(9, Math.min(13, (width / size) * 0.6));
    const family = getComputedStyle(document.body).fontFamily;
    context.font = `${font}px ${family}`;
    margin = Math.min(width * 0.28, 8 + Math.max(...text.tokens.map((token) => context.measureText(token).width)));
    cell = (width - margin) / size;
    canvas.width = canvas.height = Math.round(width * ratio);
    canvas.style.width = canvas.style.height = `${width}px`;
    context.scale(ratio, ratio);
    context.font = `${font}px ${family}`;
    context.fillStyle = bertie.colour("series-1");
    const edge = (at) => Math.round((margin + at * cell) * ratio) / ratio; // on a whole pixel: no seams between cells
    for (let row = 0; row < size; row++) {
      for (let column = 0; column < size; column++) {
        context.globalAlpha = strength(map[row * size + column]);
        context.fillRect(edge(column), edge(row), edge(column + 1) - edge(column), edge(row + 1) - edge(row));
      }
    }
    context.globalAlpha = 1;
    drawLabels(context, font);
    context.strokeStyle = bertie.colour("rule");
    context.strokeRect(margin, margin, cell * size - 0.5, cell * size - 0.5);
    context.strokeStyle = bertie.colour("series-2");
    context.lineWidth = 2;
    if (state.row !== null) context.strokeRect(margin, margin + state.row * cell, cell * size - 1, cell);
    if (state.row !== null && state.column !== null) context.strokeRect(margin + state.column * cell, margin + state.row * cell, cell, cell);
    canvas.setAttribute("aria-label", `${nameOf(state.layer, state.head)}. ${words.map}`);
  }

  function drawLabels(context, font) {
    const step = Math.ceil((font + 1) / cell);
    context.fillStyle = bertie.colour("ink");
    context.textBaseline = "middle";
    for (let at = 0; at < size; at += step) {
      const label = shorten(context, text.tokens[at], margin - 6);
      context.textAlign = "right";
      context.fillText(label, margin - 4, margin + (at + 0.5) * cell);
      context.save();
      context.translate(margin + (at + 0.5) * cell, margin - 4);
      context.rotate(-Math.PI / 2);
      context.textAlign = "left";
      context.fillText(label, 0, 0);
      context.restore();
    }
  }

  function shorten(context, label, room) {
    let characters = Array.from(label);
    while (characters.length > 1 && context.measureText(characters.join("")).width > room) characters = [...characters.slice(0, -2), "…"];
    return characters.join("");
  }

  // Row and column under the pointer; null beside the map.
  function under(event) {
    const box = canvas.getBoundingClientRect();
    const places = [event.clientY - box.top, event.clientX - box.left].map((at) => Math.floor((at - margin) / cell));
    return places.map((at) => at >= 0 && at < size ? at : null);
  }

  canvas.addEventListener("click", (event) => {
    const [row, column] = under(event);
    if (row !== null) point(row, column);
  });
  canvas.addEventListener("pointermove", (event) => {
    const [row, column] = under(event);
    hover.textContent = row === null || column === null ? ""
      : `${text.tokens[row]} → ${text.tokens[column]} ${percent(map[row * size + column])}`;
  });
  canvas.addEventListener("pointerleave", () => { hover.textContent = ""; });
  canvas.addEventListener("keydown", (event) => {
    const [down, right] = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key] || [0, 0];
    if (event.key === "Escape") point(null, null);
    if (!down && !right) return;
    event.preventDefault();
    const move = (at, by) => at === null ? 0 : Math.max(0, Math.min(size - 1, at + by));
    point(move(state.row, down), move(state.column, right));
  });

  function point(row, column) {
    Object.assign(state, { row, column });
    drawAll();
  }

  function buildLines() {
    const name = (at) => make("span", { class: `viewer-token side-${text.segments[at]}` }, text.tokens[at]);
    const buttons = text.tokens.map((token, at) => make("button", { type: "button", class: `viewer-token side-${text.segments[at]}`, "aria-pressed": "false" }, token));
    rove(buttons, 1, (at) => point(state.row === at && state.column === null ? null : at, null));
    const drawing = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    drawing.setAttribute("viewBox", `0 0 100 ${size * ROW}`);
    drawing.setAttribute("preserveAspectRatio", "none");
    drawing.setAttribute("aria-hidden", "true");
    drawing.style.height = `${size * ROW}px`;
    lines.replaceChildren(make("div", {}, ...buttons), drawing, make("div", {}, ...text.tokens.map((_, at) => name(at))));
  }

  function drawLines() {
    const [from, drawing, to] = lines.children;
    const colours = [bertie.colour("series-1"), bertie.colour("series-2")];
    const found = [];
    for (let row = 0; row < size; row++) {
      if (state.row !== null && state.row !== row) continue;
      for (let column = 0; column < size; column++) {
        const probability = map[row * size + column];
        if ((state.row === null && probability < FAINT) || !isBetween(row, column)) continue;
        const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
        const places = { x1: 0, y1: (row + 0.5) * ROW, x2: 100, y2: (column + 0.5) * ROW };
        const look = { stroke: colours[text.segments[row]], "stroke-opacity": probability.toFixed(3), "stroke-width": 1 + 2 * probability, "vector-effect": "non-scaling-stroke" };
        for (const [key, value] of Object.entries({ ...places, ...look })) line.setAttribute(key, value);
        found.push(line);
      }
    }
    drawing.replaceChildren(...found);
    for (let at = 0; at < size; at++) {
      from.children[at].setAttribute("aria-pressed", state.row === at);
      const share = state.row === null || !isBetween(state.row, at) ? 0 : map[state.row * size + at];
      to.children[at].style.backgroundColor = bertie.colour("series-1", 0.5 * strength(share));
      to.children[at].title = state.row === null ? "" : percent(share);
    }
  }

  // What is chosen, in words.
  function tell() {
    const head = nameOf(state.layer, state.head);
    const from = state.row === null ? null : text.tokens[state.row];
    if (from === null) readout.textContent = head;
    else if (state.column !== null) {
      readout.textContent = say(words.says, { head, from, to: text.tokens[state.column], share: percent(map[state.row * size + state.column], 2) });
    } else {
      const shares = text.tokens.map((token, at) => [map[state.row * size + at], token]).sort((one, other) => other[0] - one[0]);
      readout.textContent = say(words.most, { head, from, list: shares.slice(0, 3).map(([share, token]) => `${token} ${percent(share)}`).join(", ") });
    }
  }

  openText(0);
  bertie.onTheme(() => { paintPicker(); drawMap(); drawLines(); });
  let width = 0;
  new ResizeObserver(([entry]) => {
    if (Math.abs(entry.contentRect.width - width) < 1) return;
    width = entry.contentRect.width;
    drawMap();
  }).observe(element);
};
