// Scores of several runs: a row for each, a dot for each seed, a bar of one standard deviation around their mean.
"use strict";

bertie.kinds["spread"] = (element, data, words) => {
  const rows = [...data.rows].reverse(); // ECharts counts rows from below
  const all = rows.flatMap((row) => [...row.each, row.floor ?? row.mean, row.mean - (row.deviation ?? 0), row.mean + (row.deviation ?? 0)]);
  const room = (Math.max(...all) - Math.min(...all)) * 0.06 || 0.01;
  const fixed = (value) => (value === null || value === undefined ? "–" : value.toFixed(4));
  const holder = bertie.make("div", { tabindex: "0" });
  element.append(holder);
  holder.style.height = `${70 + rows.length * 38}px`;

  function bar(params, api) {
    const [row, low, high, mean] = [0, 1, 2, 3].map((index) => api.value(index));
    const [left, y] = api.coord([low, row]), [right] = api.coord([high, row]), [middle] = api.coord([mean, row]);
    const stroke = { stroke: bertie.colour("series-1"), lineWidth: 2 };
    const line = (x1, y1, x2, y2, style = stroke) => ({ type: "line", shape: { x1, y1, x2, y2 }, style });
    return {
      type: "group",
      children: [line(left, y, right, y), line(left, y - 5, left, y + 5), line(right, y - 5, right, y + 5), line(middle, y - 11, middle, y + 11, { ...stroke, lineWidth: 3 })],
    };
  }

  function floor(params, api) {
    const [x, y] = api.coord([api.value(1), api.value(0)]);
    return { type: "line", shape: { x1: x, y1: y - 13, x2: x, y2: y + 13 }, style: { stroke: bertie.colour("quiet"), lineWidth: 1.5, lineDash: [3, 3] } };
  }

  const told = (row) => [
    row.name,
    `${words.mean}: ${fixed(row.mean)}`,
    ...(row.deviation === null ? [] : [`${words.deviation}: ${fixed(row.deviation)}`, `${words.seeds}: ${row.each.map(fixed).join(", ")}`]),
    ...(row.floor === null ? [] : [`${words.floor}: ${fixed(row.floor)}`]),
  ].join("\n");

  // As wide as the longest name, but no wider than a share of the chart.
  function roomOfNames() {
    const context = bertie.make("canvas").getContext("2d");
    context.font = `13px ${getComputedStyle(document.body).fontFamily}`;
    const longest = Math.max(...rows.map((row) => context.measureText(row.name).width));
    return Math.ceil(Math.min(longest, holder.clientWidth * 0.4)) + 4;
  }

  const namesWidth = roomOfNames();
  const chart = bertie.chart(holder, () => ({
    grid: { left: namesWidth + 16, right: 24, top: 8, bottom: 36 },
    tooltip: bertie.tooltip({ trigger: "item", formatter: (one) => told(rows[one.value[one.seriesType === "scatter" ? 1 : 0]]) }),
    xAxis: bertie.axis({ type: "value", min: Math.min(...all) - room, max: Math.max(...all) + room, axisLabel: { color: bertie.colour("quiet"), hideOverlap: true, showMinLabel: false, showMaxLabel: false, formatter: bertie.format } }),
    yAxis: bertie.axis({ type: "category", data: rows.map((row) => row.name), axisTick: { show: false }, axisLabel: { color: bertie.colour("ink"), fontSize: 13, width: namesWidth, overflow: "truncate" } }),
    series: [
      { type: "custom", renderItem: bar, encode: { x: [1, 2, 3], y: 0 }, data: rows.map((row, index) => [index, row.mean - (row.deviation ?? 0), row.mean + (row.deviation ?? 0), row.mean]) },
      { type: "custom", renderItem: floor, encode: { x: 1, y: 0 }, data: rows.flatMap((row, index) => (row.floor === null ? [] : [[index, row.floor]])) },
      { type: "scatter", symbolSize: 10, itemStyle: { color: bertie.colour("series-2", 0.75) }, data: rows.flatMap((row, index) => row.each.map((score) => [score, index])) },
    ],
  }));

  let at = rows.length;
  holder.addEventListener("keydown", (event) => {
    const by = { ArrowDown: -1, ArrowUp: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    at = Math.min(rows.length - 1, Math.max(0, at + by));
    chart.dispatchAction({ type: "showTip", seriesIndex: 0, dataIndex: at });
  });
  holder.addEventListener("blur", () => chart.dispatchAction({ type: "hideTip" }));
};
