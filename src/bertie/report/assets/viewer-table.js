// The word table: pieces of the vocabulary in a plane, by kind, with a field to find one.
"use strict";

bertie.kinds["viewer-table"] = (element, data, words) => {
  const { make } = bertie;
  const { say, cosine } = bertie.viewer;
  const KINDS = ["word", "continuation", "character", "other"];
  const SYMBOLS = { word: "circle", continuation: "triangle", character: "diamond", other: "rect" };
  const MARGIN = 1.1;
  const NAMED = 0.4; // when so much of the plane is shown or less, all points have their names
  // The middle of what is shown and how far it reaches, along each axis: at first all points.
  const ends = [0, 1].map((axis) => data.points.reduce(([low, high], point) => [Math.min(low, point[axis]), Math.max(high, point[axis])], [Infinity, -Infinity]));
  const whole = { middle: ends.map(([low, high]) => (low + high) / 2), reach: ends.map(([low, high]) => MARGIN * (high - low) / 2 || 1) };
  const view = { middle: [...whole.middle], size: 1 };
  const numbers = new Map(data.pieces.map((piece, number) => [piece, number]));
  const own = Object.keys(data.own).map(Number);
  let chosen = null;

  const names = `${element.id}-pieces`;
  const field = make("input", { type: "search", list: names, autocomplete: "off", spellcheck: "false" });
  const buttons = [["larger", () => zoom(0.6)], ["smaller", () => zoom(1 / 0.6)], ["whole", () => zoom(0)]].map(([name, act]) => {
    const button = make("button", { type: "button" }, words[name]);
    button.addEventListener("click", act);
    return button;
  });
  const readout = make("p", { class: "viewer-readout", "aria-live": "polite" });
  const plane = make("div", { class: "viewer-plane", tabindex: "0", role: "group", "aria-label": words.help });
  element.append(
    make("div", { class: "tools" }, make("label", {}, `${words.find} `, field), ...buttons,
      make("datalist", { id: names }, ...data.pieces.map((piece) => make("option", { value: piece })))),
    readout, plane, make("p", { class: "viewer-hint" }, words.help),
  );

  field.addEventListener("change", () => {
    const piece = field.value.trim();
    if (numbers.has(piece)) choose(numbers.get(piece));
    else readout.textContent = piece ? say(words.absent, { piece }) : "";
  });
  plane.addEventListener("keydown", (event) => {
    const [right, up] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key] || [0, 0];
    if (right || up) move(view.middle.map((at, axis) => at + [right, up][axis] * reach(axis) / 4));
    else if (event.key === "+" || event.key === "=") zoom(0.6);
    else if (event.key === "-") zoom(1 / 0.6);
    else if (event.key === "0") zoom(0);
    else return;
    event.preventDefault();
  });

  function zoom(factor) {
    if (factor === 0) Object.assign(view, { middle: [...whole.middle], size: 1 });
    else {
      if (chosen !== null && factor < 1) view.middle = [...data.points[chosen]];
      view.size = Math.min(1, view.size * factor);
    }
    redraw();
  }

  function move(middle) {
    view.middle = middle;
    redraw();
  }

  function choose(number) {
    chosen = number;
    const told = { piece: data.pieces[number], kind: words[data.kinds[number]] };
    const near = data.own[number];
    readout.textContent = near
      ? say(words.near, { ...told, list: near.map(([piece, value]) => `${piece} ${cosine(value)}`).join(", ") })
      : say(words.alone, told);
    const isInView = data.points[number].every((at, axis) => Math.abs(at - view.middle[axis]) < reach(axis));
    move(isInView ? view.middle : [...data.points[number]]);
  }

  const reach = (axis) => whole.reach[axis] * view.size;
  const axis = (number) => bertie.axis({
    type: "value", min: view.middle[number] - reach(number), max: view.middle[number] + reach(number),
    axisLabel: { show: false }, axisTick: { show: false }, splitLine: { show: false },
  });
  const dot = (number) => ({ value: data.points[number], number });
  const label = (look) => ({ show: true, opacity: 1, position: "top", color: bertie.colour("ink"), formatter: ({ data: { number } }) => data.pieces[number], ...look });

  function options() {
    const series = KINDS.map((kind, at) => ({
      type: "scatter", name: words[kind], symbol: SYMBOLS[kind], symbolSize: 5,
      itemStyle: { color: bertie.colour(`series-${at + 1}`), opacity: 0.55 },
      label: label({ show: view.size < NAMED, color: bertie.colour("quiet"), fontSize: 11 }), labelLayout: { hideOverlap: true },
      data: data.pieces.flatMap((_, number) => data.kinds[number] === kind && !data.own[number] ? [dot(number)] : []),
    }));
    series.push({
      type: "scatter", name: words.own, symbol: "circle", symbolSize: 9, z: 3,
      itemStyle: { color: bertie.colour("series-6"), borderColor: bertie.colour("paper"), borderWidth: 1 },
      label: label(), labelLayout: { hideOverlap: true },
      data: own.map(dot),
    });
    series.push({
      type: "scatter", symbol: "circle", symbolSize: 18, z: 4, silent: true, tooltip: { show: false },
      itemStyle: { color: "transparent", borderColor: bertie.colour("ink"), borderWidth: 2 },
      label: label({ show: chosen !== null && !data.own[chosen], fontWeight: "bold" }),
      data: chosen === null ? [] : [dot(chosen)],
    });
    return {
      legend: { bottom: 0, itemWidth: 14, itemHeight: 10, data: series.slice(0, -1).map(({ name }) => name), textStyle: { color: bertie.colour("ink") } },
      grid: { left: 8, right: 8, top: 12, bottom: 48 },
      tooltip: bertie.tooltip({ trigger: "item", formatter: ({ data: { number } }) => data.pieces[number] }),
      xAxis: axis(0),
      yAxis: axis(1),
      series,
    };
  }

  const drawn = bertie.chart(plane, options);
  const redraw = () => drawn.setOption(options());
  drawn.on("click", ({ data: { number } }) => choose(number));
};
