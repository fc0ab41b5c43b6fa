// Curves: a panel for each figure, a colour for each run (seeds share theirs); thin lines are single steps, thick ones means, dots held-out text.
"use strict";

bertie.kinds["curves"] = (element, data, words) => {
  const state = { axis: "step", logarithmic: false };
  const hidden = new Set(); // the names of lines
  const isTouched = matchMedia("(pointer: coarse)").matches; // then what is to be dragged is larger
  const percent = (value) => `${bertie.format(value * 100)} %`;
  const show = (panel) => (value) => (panel.unit === "percent" ? percent(value) : bertie.format(value));
  const clock = (seconds) => {
    const whole = Math.round(seconds), hours = Math.floor(whole / 3600), minutes = Math.floor(whole / 60) % 60;
    const parts = { hours, minutes, seconds: whole < 60 ? bertie.format(seconds) : whole % 60 };
    return words[hours ? "hours" : minutes ? "minutes" : "seconds"].replace(/\{(\w+)\}/g, (_, name) => parts[name]);
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
      each: (colour) => ({ lineStyle: { width: 1, opacity: 0.35, color: colour }, silent: true, sampling: "minmax" }),
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

  // The value of the point that is nearest along the bottom.
  function nearest(data, at) {
    let low = 0, high = data.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (data[middle][0] <= at) low = middle; else high = middle;
    }
    return (at - data[low][0] <= data[high][0] - at ? data[low] : data[high])[1];
  }

  // What the lines of a panel say at a place along the bottom.
  function tell(panel, drawn, at) {
    const isThere = ({ name, data: known }) => !hidden.has(name) && known[0][0] <= at && at <= known.at(-1)[0];
    const lines = drawn.filter((one, index) => panel.lines[index].role !== "each" && isThere(one));
    const unit = state.axis === "seconds" ? "" : ` ${words[state.axis]}`;
    return [along(at) + unit, ...lines.map((one) => `${one.name}: ${show(panel)(nearest(one.data, at))}`)].join("\n");
  }

  function options(panel) {
    const values = panel.lines.flatMap((line) => line.y);
    const isLogarithmic = state.logarithmic && values.every((value) => value > 0);
    const shown = show(panel);
    const drawn = series(panel);
    return {
      grid: { left: 12, right: 30, top: 12, bottom: isTouched ? 46 : 36, containLabel: true },
      xAxis: bertie.axis({ type: "value", min: "dataMin", max: "dataMax", splitLine: { show: false }, axisLabel: { color: bertie.colour("quiet"), formatter: along, hideOverlap: true, alignMinLabel: "left", alignMaxLabel: "right" } }),
      yAxis: bertie.axis({ type: isLogarithmic ? "log" : "value", scale: true, axisLabel: { color: bertie.colour("quiet"), formatter: shown } }),
      tooltip: bertie.tooltip({
        trigger: "axis",
        formatter: (found) => tell(panel, drawn, found[0].value[0]),
      }),
      dataZoom: [
        { type: "inside", filterMode: "none", zoomOnMouseWheel: "ctrl", moveOnMouseMove: false, moveOnMouseWheel: false, preventDefaultMouseMove: false },
        { type: "slider", filterMode: "none", height: isTouched ? 28 : 18, bottom: 4, handleSize: isTouched ? "130%" : "100%", showDetail: false, brushSelect: false, borderColor: bertie.colour("rule"), fillerColor: bertie.colour("link", 0.15), handleStyle: { color: bertie.colour("raised"), borderColor: bertie.colour("quiet") }, moveHandleSize: 4, dataBackground: { lineStyle: { opacity: 0 }, areaStyle: { opacity: 0 } }, selectedDataBackground: { lineStyle: { opacity: 0 }, areaStyle: { opacity: 0 } } },
      ],
      series: drawn,
    };
  }

  // Zoom and the place looked at, by keys; what one chart does, the others of the figure follow.
  function listen(holder, chart, panel) {
    const lengths = panel.lines.map((line) => (line.role === "each" ? -1 : line.x.at(-1)));
    const main = lengths.indexOf(Math.max(...lengths)); // the line that keys move along
    let at = -1;
    holder.addEventListener("keydown", (event) => {
      const { start, end, startValue, endValue } = chart.getOption().dataZoom[0];
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
        const { series: drawn } = chart.getOption();
        const places = drawn[main].data.map(([x]) => x);
        const first = Math.max(0, places.findIndex((x) => x >= startValue));
        const last = Math.max(first, places.findLastIndex((x) => x <= endValue));
        at = Math.min(last, Math.max(first, at + by * Math.max(1, Math.round((last - first) / 40))));
        chart.dispatchAction({ type: "showTip", seriesIndex: main, dataIndex: at });
        status.textContent = `${panel.title}, ${tell(panel, drawn, places[at])}`;
      };
      if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      keys[event.key]();
    });
    holder.addEventListener("blur", () => chart.dispatchAction({ type: "hideTip" }));
  }

  // The values in sight fill the height.
  function fit(chart) {
    const { startValue, endValue, start, end } = chart.getOption().dataZoom[0];
    const isWhole = start === 0 && end === 100;
    let low = Infinity, high = -Infinity;
    for (const line of isWhole ? [] : chart.getOption().series) {
      for (const [x, y] of line.data) {
        if (x < startValue || x > endValue) continue;
        low = Math.min(low, y);
        high = Math.max(high, y);
      }
    }
    const room = (high - low) * 0.05;
    const isKnown = low < high;
    const isLogarithmic = chart.getOption().yAxis[0].type === "log";
    chart.setOption({ yAxis: isKnown && !isLogarithmic ? { min: low - room, max: high + room, axisLabel: { showMinLabel: false, showMaxLabel: false } } : { min: null, max: null, axisLabel: { showMinLabel: null, showMaxLabel: null } } });
  }

  const status = bertie.make("p", { role: "status", class: "unseen" }); // is read out
  const charts = [];
  const refresh = () => charts.forEach(({ chart, panel }) => chart.setOption(options(panel)));
  const zoomOut = () => charts.forEach(({ chart }) => chart.dispatchAction({ type: "dataZoom", start: 0, end: 100 }));

  function tools() {
    const box = bertie.make("div", { class: "tools" });
    const axes = ["step", "tokens", "seconds"].filter((name) => data.places.every((one) => one[name]));
    const choice = bertie.make("select", { "aria-label": words.axis }, ...axes.map((name) => bertie.make("option", { value: name }, words[name === "seconds" ? "time" : name])));
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
            if (data.runs[line.run].group !== group) return;
            const { name } = chart.getOption().series[index];
            if (isShown) hidden.delete(name); else hidden.add(name);
            chart.dispatchAction({ type: isShown ? "legendSelect" : "legendUnSelect", name });
          });
        }
      });
      box.append(button);
    }
    return box;
  }

  const grid = bertie.make("div", { class: "panels" });
  element.append(tools(), ...(groups.length > 1 ? [legend()] : []), grid, status, bertie.make("p", { class: "hint" }, words.help));
  for (const panel of data.panels) {
    const holder = bertie.make("div", { role: "img", tabindex: "0", "aria-label": `${panel.title}. ${panel.alternative}` });
    grid.append(bertie.make("div", { class: "panel" }, bertie.make("h3", {}, panel.title), holder));
    const chart = bertie.chart(holder, () => ({ legend: { show: false }, ...options(panel) }));
    chart.group = element.id;
    charts.push({ chart, panel });
    listen(holder, chart, panel);
    let due;
    chart.on("dataZoom", () => { clearTimeout(due); due = setTimeout(() => fit(chart), 120); });
  }
  echarts.connect(element.id);
};
