// Numbers said against numbers true: a dot for each example, a line where both are the same.
"use strict";

bertie.kinds["against"] = (element, data, words) => {
  const { points } = data;
  const numbers = points.flatMap(([truth, said]) => [truth, said]);
  const low = Math.min(...numbers), high = Math.max(...numbers), room = (high - low) * 0.05 || 1;
  const holder = bertie.make("div", { tabindex: "0" });
  element.append(holder);
  const lines = (text) => text.match(/.{1,60}(\s|$)|.{1,60}/g).slice(0, 6).join("\n");
  const ends = { min: low - room, max: high + room };
  const label = { color: "", formatter: bertie.format, showMinLabel: false, showMaxLabel: false };

  const chart = bertie.chart(holder, () => {
    const axis = (name, rest) => bertie.axis({ type: "value", name, ...ends, axisLabel: { ...label, color: bertie.colour("quiet") }, ...rest });
    return {
      grid: { left: 48, right: 24, top: 30, bottom: 44 },
      tooltip: bertie.tooltip({ trigger: "item", formatter: ({ value }) => `${words.true}: ${bertie.format(value[0])}, ${words.said}: ${bertie.format(value[1])}\n${lines(points[value[2]][2])}` }),
      xAxis: axis(words.true, { nameLocation: "middle", nameGap: 26 }),
      yAxis: axis(words.said, {}),
      series: [{
        type: "scatter",
        symbolSize: 8,
        itemStyle: { color: bertie.colour("series-1", 0.6) },
        data: points.map(([truth, said], index) => [truth, said, index]),
        markLine: { silent: true, symbol: "none", animation: false, lineStyle: { color: bertie.colour("quiet"), type: "dashed" }, data: [[{ coord: [ends.min, ends.min] }, { coord: [ends.max, ends.max] }]] },
      }],
    };
  });

  let at = -1;
  holder.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    at = Math.min(points.length - 1, Math.max(0, at + by));
    chart.dispatchAction({ type: "showTip", seriesIndex: 0, dataIndex: at });
  });
  holder.addEventListener("blur", () => chart.dispatchAction({ type: "hideTip" }));
};
