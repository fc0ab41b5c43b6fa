// Curves: a panel for each figure, a colour for each run (seeds share theirs); thin lines are single steps, thick ones means, dots held-out text.
"use strict";

bertie.kinds["curves"] = (element, data, words) => {
  const state = { axis: "step", logarithmic: false };
  const percent = (value) => `${bertie.format(value * 100)} %`;
  const show = (panel) => (value) => (panel.unit === "percent" ? percent(value) : bertie.format(value));
  const clock = (seconds) => {
    const hours = Math.floor(seconds / 3600), minutes = Math.floor((seconds % 3600) / 60), rest = Math.round(seconds % 60);
    return hours ? `${hours} h ${minutes} min` : minutes ? `${minutes} min ${rest} s` : `${bertie.format(seconds)} s`;
  };
  const along = (value) => (state.axis === "seconds" ? clock(value) : bertie.format(Math.round(value)));

  // Where a step lies along the bottom: itself, or the tokens or seconds that the run had come to.
  function place(run, step) {
    const { step: steps, [state.axis]: values } = data.places[run];
    if (state.axis === "step" || !values) return step;
    let low = 0, high = steps.length - 1;
    if (high < 1) return values[0];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (steps[middle] <= step) low = middle; else high = middle;
    }
    return values[low] + ((step - steps[low]) / (steps[high] - steps[low])) * (values[high] - values[low]);
  }

  const groups = [...new Set(data.runs.map((run) => run.group))];
  const number = (group) => (groups.indexOf(group) % 8) + 1;
  const points = (line) => line.x.map((step, index) => [place(line.run, step), line.y[index]]);

  function series(panel) {
    const looks = {
      each: (colour) => ({ lineStyle: { width: 1, opacity: 0.35, color: colour }, silent: true, tooltip: { show: false } }),
      mean: (colour) => ({ lineStyle: { width: 2, color: colour } }),
      held: (colour) => ({ lineStyle: { width: 1.5, type: "dashed", color: colour }, showSymbol: true, symbolSize: 6 }),
    };
    return panel.lines.map((line) => {
      const { name: run, group } = data.runs[line.run];
      const colour = bertie.colour(`series-${number(group)}`);
      const name = line.role === "mean" ? run : `${run}, ${words[line.role]}`;
      return { type: "line", name, showSymbol: false, data: points(line), itemStyle: { color: colour }, ...looks[line.role](colour) };
    });
  }

  function options(panel) {
    const values = panel.lines.flatMap((line) => line.y);
    const isLogarithmic = state.logarithmic && values.every((value) => value > 0);
    const shown = show(panel);
    return {
      grid: { left: 12, right: 16, top: 12, bottom: 36, containLabel: true },
      xAxis: bertie.axis({ type: "value", min: "dataMin", max: "dataMax", splitLine: { show: false }, axisLabel: { color: bertie.colour("quiet"), formatter: along, hideOverlap: true } }),
      yAxis: bertie.axis({ type: isLogarithmic ? "log" : "value", scale: true, axisLabel: { color: bertie.colour("quiet"), formatter: shown } }),
      tooltip: bertie.tooltip({
        trigger: "axis",
        formatter: (found) => {
          const lines = found.filter((one) => panel.lines[one.seriesIndex].role !== "each" || found.length === 1);
          return [`${along(found[0].value[0])} ${state.axis === "seconds" ? "" : words[state.axis]}`, ...lines.map((one) => `${one.seriesName}: ${shown(one.value[1])}`)].join("\n");
        },
      }),
      dataZoom: [
        { type: "inside", filterMode: "none", zoomOnMouseWheel: "ctrl", moveOnMouseMove: false, moveOnMouseWheel: false, preventDefaultMouseMove: false },
        { type: "slider", filterMode: "none", height: 18, bottom: 4, showDetail: false, brushSelect: false, borderColor: bertie.colour("rule"), fillerColor: bertie.colour("link", 0.15), handleStyle: { color: bertie.colour("raised"), borderColor: bertie.colour("quiet") }, moveHandleSize: 4, dataBackground: { lineStyle: { opacity: 0 }, areaStyle: { opacity: 0 } }, selectedDataBackground: { lineStyle: { opacity: 0 }, areaStyle: { opacity: 0 } } },
      ],
      series: series(panel),
    };
  }

  // Zoom and the place looked at, by keys; what one chart does, the others of the figure follow.
  function listen(holder, chart, panel) {
    const main = Math.max(0, panel.lines.findIndex((line) => line.role !== "each"));
    let at = -1;
    holder.addEventListener("keydown", (event) => {
      const { start, end } = chart.getOption().dataZoom[0];
      const zoom = (from, to) => chart.dispatchAction({ type: "dataZoom", start: Math.max(0, from), end: Math.min(100, to) });
      const quarter = (end - start) / 4;
      const keys = {
        "+": () => zoom(start + quarter, end - quarter),
        "=": () => zoom(start + quarter, end - quarter),
        "-": () => zoom(start - 2 * quarter, end + 2 * quarter),
        0: () => zoom(0, 100),
        ArrowRight: () => move(1),
        ArrowLeft: () => move(-1),
        Home: () => move(-Infinity),
        End: () => move(Infinity),
      };
      const move = (by) => {
        const count = panel.lines[main].x.length;
        const stride = Math.max(1, Math.round((count * (end - start)) / 100 / 40));
        at = Math.min(count - 1, Math.max(0, at + by * stride));
        chart.dispatchAction({ type: "showTip", seriesIndex: main, dataIndex: at });
      };
      if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      keys[event.key]();
    });
    holder.addEventListener("blur", () => chart.dispatchAction({ type: "hideTip" }));
  }

  const charts = [];
  const refresh = () => charts.forEach(({ chart, panel }) => chart.setOption(options(panel)));
  const zoomOut = () => charts.forEach(({ chart }) => chart.dispatchAction({ type: "dataZoom", start: 0, end: 100 }));

  function tools() {
    const box = bertie.make("div", { class: "tools" });
    const axes = ["step", "tokens", "seconds"].filter((name) => data.places.every((one) => one[name]));
    const choice = bertie.make("select", { "aria-label": words.axis }, ...axes.map((name) => bertie.make("option", { value: name }, words[name])));
    choice.addEventListener("change", () => { state.axis = choice.value; zoomOut(); refresh(); });
    const logarithmic = bertie.make("button", { type: "button", "aria-pressed": "false" }, words.logarithmic);
    logarithmic.addEventListener("click", () => {
      state.logarithmic = !state.logarithmic;
      logarithmic.setAttribute("aria-pressed", String(state.logarithmic));
      refresh();
    });
    const reset = bertie.make("button", { type: "button" }, words.reset);
    reset.addEventListener("click", zoomOut);
    box.append(choice, logarithmic, reset);
    return box;
  }

  // Which colour is which run, or runs that differ by their seed; pressing a name hides and shows the lines.
  function legend() {
    const box = bertie.make("div", { class: "tools legend" });
    for (const group of groups) {
      const mark = bertie.make("span", { class: "mark", "aria-hidden": "true" });
      mark.style.background = `var(--series-${number(group)})`;
      const button = bertie.make("button", { type: "button", "aria-pressed": "true", class: "run" }, mark, group);
      button.addEventListener("click", () => {
        const isShown = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(isShown));
        for (const { chart, panel } of charts) {
          panel.lines.forEach((line, index) => {
            if (data.runs[line.run].group === group) chart.dispatchAction({ type: isShown ? "legendSelect" : "legendUnSelect", name: chart.getOption().series[index].name });
          });
        }
      });
      box.append(button);
    }
    return box;
  }

  const grid = bertie.make("div", { class: "panels" });
  element.append(tools(), ...(groups.length > 1 ? [legend()] : []), grid, bertie.make("p", { class: "hint" }, words.help));
  for (const panel of data.panels) {
    const holder = bertie.make("div", { role: "img", tabindex: "0", "aria-label": `${panel.title}. ${panel.alternative}` });
    grid.append(bertie.make("div", { class: "panel" }, bertie.make("h3", {}, panel.title), holder));
    const chart = bertie.chart(holder, () => ({ legend: { show: false }, ...options(panel) }));
    chart.group = element.id;
    charts.push({ chart, panel });
    listen(holder, chart, panel);
  }
  echarts.connect(element.id);
};
