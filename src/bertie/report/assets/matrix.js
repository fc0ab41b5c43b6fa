// What is taken for what: a table whose cells are shaded by their share of the row; choosing one shows its examples.
"use strict";

bertie.kinds["matrix"] = (element, data, words) => {
  const { labels, counts, examples } = data;
  const totals = counts.map((row) => row.reduce((sum, count) => sum + count, 0));
  const list = bertie.make("div", { class: "behind", "aria-live": "polite" }, bertie.make("p", {}, words.choose));
  const head = labels.map((label) => bertie.make("th", { scope: "col", title: label }, bertie.make("span", {}, label)));
  const body = labels.map((label, gold) => bertie.make("tr", {}, bertie.make("th", { scope: "row", title: label }, label), ...counts[gold].map((count, called) => cell(count, gold, called))));
  const table = bertie.make("table", { class: "matrix" }, bertie.make("thead", {}, bertie.make("tr", {}, bertie.make("td", {}, words.truth), ...head)), bertie.make("tbody", {}, ...body));
  element.append(bertie.make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": words.truth }, table), list);

  function cell(count, gold, called) {
    const found = bertie.make("td", {});
    const share = totals[gold] ? count / totals[gold] : 0;
    const isRight = gold === called;
    found.style.background = `color-mix(in srgb, var(--${isRight ? "good" : "bad"}) ${Math.round(share * (isRight ? 55 : 80))}%, transparent)`;
    if (!count) return found;
    const said = words.cell.replace("{count}", count).replace("{gold}", labels[gold]).replace("{called}", labels[called]);
    if (isRight) {
      found.append(bertie.make("span", { title: said }, String(count)));
      return found;
    }
    const button = bertie.make("button", { type: "button", title: said, "aria-label": said }, String(count));
    button.addEventListener("click", () => show(gold, called, count, said));
    found.append(button);
    return found;
  }

  function show(gold, called, count, said) {
    const texts = examples.filter((one) => one[0] === gold && one[1] === called).map((one) => bertie.make("li", {}, one[2]));
    const note = texts.length === 0 ? words.none : texts.length < count ? words.more.replace("{shown}", texts.length).replace("{count}", count) : "";
    list.replaceChildren(bertie.make("p", {}, bertie.make("strong", {}, said)), ...(texts.length ? [bertie.make("ul", {}, ...texts)] : []), ...(note ? [bertie.make("p", {}, note)] : []));
  }
};
