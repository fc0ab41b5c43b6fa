// Words in context: the places of a word in a plane, layer by layer, and the sentences with what lies near each.
"use strict";

bertie.kinds["viewer-senses"] = (element, data, words) => {
  const { make } = bertie;
  const { say, rove, cosine } = bertie.viewer;
  const SYMBOLS = ["circle", "triangle", "diamond", "rect"];
  const UNKNOWN = "roundRect";
  const sentences = data.sentences.map((text) => Array.from(text)); // offsets count characters, not halves of them
  const state = { word: 0, layer: data.words[0].layers.length - 1, place: 0 };
  const word = () => data.words[state.word];
  const layer = () => word().layers[state.layer];

  const select = make("select", {}, ...data.words.map((one, number) => make("option", { value: number }, `${one.word} (${one.places.length})`)));
  const slider = make("input", { type: "range", min: 0, max: state.layer, value: state.layer });
  const output = make("output");
  const title = make("p", { class: "viewer-hint" });
  const agreeing = make("p", { class: "viewer-readout", "aria-live": "polite" });
  const plane = make("div", { class: "viewer-plane" });
  const list = make("ol", { class: "viewer-sentences" });
  element.append(
    make("div", { class: "tools" }, make("label", {}, `${words.word} `, select), make("label", {}, `${words.layer} `, slider, " ", output)),
    agreeing,
    make("div", { class: "parts" }, make("div", {}, title, plane), make("div", {}, make("p", { class: "viewer-hint" }, words.sentences), list)),
  );
  select.addEventListener("change", () => { Object.assign(state, { word: Number(select.value), place: 0 }); build(); });
  slider.addEventListener("input", () => { state.layer = Number(slider.value); update(); });

  const nameOf = (sense) => sense === null ? words.unknown : data.names[sense];
  const spelled = ([sentence, start, end]) => sentences[sentence].slice(start, end).join("");
  // Colours and symbols count the senses of this word alone.
  const ranks = () => [...new Set(word().senses.filter((sense) => sense !== null))];
  const rank = (sense) => sense === null ? 7 : ranks().indexOf(sense) + 1;

  function build() {
    const buttons = word().places.map(([sentence, start, end], at) => {
      const characters = sentences[sentence];
      const cut = (from, to) => characters.slice(from, to).join("");
      const button = make("button", { type: "button", "aria-pressed": "false" },
        make("span", { class: `viewer-badge sense-${rank(word().senses[at])}` }, String(at + 1)), " ",
        cut(0, start), make("mark", {}, cut(start, end)), cut(end));
      return button;
    });
    list.replaceChildren(...buttons.map((button, at) => make("li", {}, button,
      make("p", { class: "viewer-hint" }, make("span", { class: "viewer-sense" }, nameOf(word().senses[at])), make("span", { class: "viewer-cosine" })),
      make("p", { class: "viewer-near" }))));
    rove(buttons, 1, (at) => { state.place = state.place === at ? null : at; update(); });
    update();
  }

  function update() {
    output.textContent = String(state.layer);
    title.textContent = say(words.plane, { word: word().word, layer: state.layer });
    const [agree, count] = word().agreeing[state.layer];
    agreeing.textContent = count ? say(words.agree, { agree, count }) : "";
    [...list.children].forEach((line, at) => {
      line.querySelector("button").setAttribute("aria-pressed", state.place === at);
      const shown = state.place !== null && state.place !== at;
      line.querySelector(".viewer-cosine").textContent = shown ? ` · ${say(words.cosine, { share: cosine(layer().cosines[state.place][at]) })}` : "";
      const near = layer().neighbours[at].map(([number, value]) => `${spelled(data.places[number])} ${cosine(value)}`).join(", ");
      line.querySelector(".viewer-near").textContent = state.place === at ? say(words.near, { list: near || "–" }) : "";
    });
    redraw();
  }

  function options() {
    const groups = [...ranks(), null].map((sense) => ({
      sense,
      places: word().senses.flatMap((one, at) => one === sense ? [at] : []),
    })).filter((group) => group.places.length);
    const wide = { min: -1.15, max: 1.15, show: true, axisLabel: { show: false }, axisTick: { show: false } };
    return {
      legend: { show: groups.some((group) => group.sense !== null), bottom: 0, itemWidth: 14, itemHeight: 10, textStyle: { color: bertie.colour("ink") } },
      grid: { left: 8, right: 8, top: 8, bottom: 40 },
      tooltip: bertie.tooltip({ trigger: "item", formatter: ({ data: { at } }) => sentences[word().places[at][0]].join("") }),
      xAxis: bertie.axis({ type: "value", ...wide }),
      yAxis: bertie.axis({ type: "value", ...wide }),
      series: groups.map(({ sense, places }) => ({
        type: "scatter",
        name: nameOf(sense),
        symbol: sense === null ? UNKNOWN : SYMBOLS[(rank(sense) - 1) % SYMBOLS.length],
        symbolSize: 16,
        itemStyle: { color: bertie.colour(`series-${rank(sense)}`) },
        labelLayout: { moveOverlap: "shiftY" },
        label: { show: true, position: "right", color: bertie.colour("ink"), formatter: ({ data: { at } }) => String(at + 1) },
        data: places.map((at) => ({
          value: layer().points[at], at,
          itemStyle: at === state.place ? { borderColor: bertie.colour("ink"), borderWidth: 3 } : {},
        })),
      })),
    };
  }

  const drawn = bertie.chart(plane, options);
  const redraw = () => drawn.setOption(options(), { replaceMerge: ["series"] });
  drawn.on("click", ({ data: { at } }) => { state.place = at; update(); });
  build();
};
