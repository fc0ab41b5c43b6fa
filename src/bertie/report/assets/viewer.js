// What the viewer's figures share.
"use strict";

bertie.viewer = (() => {
  const { make } = bertie;
  const LONGEST = 60; // characters of a text in a list to choose from

  // The text with {names} filled in.
  const say = (text, values) => text.replace(/\{(\w+)\}/g, (whole, name) => name in values ? values[name] : whole);

  // 0.4123 as 41.2 %.
  const percent = (share, digits = 1) => new Intl.NumberFormat(document.documentElement.lang, { style: "percent", minimumFractionDigits: digits, maximumFractionDigits: digits }).format(share);

  // Close to 1, where many are, with the digits that tell them apart.
  const cosine = (value) => value.toFixed(Math.abs(value) < 0.98 ? 2 : 4);

  // A list to choose a text from, where there are several; `open` is called with its number.
  function pickText(texts, label, open) {
    if (texts.length < 2) return [];
    const select = make("select", {}, ...texts.map(({ text }, number) => make("option", { value: number }, `${number + 1}: ${short(text)}`)));
    select.addEventListener("change", () => open(Number(select.value)));
    return [make("label", {}, `${label} `, select)];
  }

  function short(text) {
    const characters = Array.from(text);
    return characters.length > LONGEST ? `${characters.slice(0, LONGEST - 1).join("")}…` : text;
  }

  // Buttons that are one stop of the Tab key: the arrow keys move among them, `columns` to a row (0: all in one row), and
  // choose as a click does. Home and End go to the first and last.
  function rove(buttons, columns, choose) {
    buttons.forEach((button, number) => {
      button.tabIndex = number === 0 ? 0 : -1;
      button.addEventListener("click", () => { stop(number); choose(number); });
      button.addEventListener("keydown", (event) => {
        const next = target(event.key, number);
        if (next === undefined || !buttons[next]) return;
        event.preventDefault();
        stop(next);
        buttons[next].focus();
        choose(next);
      });
    });
    const stop = (chosen) => buttons.forEach((button, number) => { button.tabIndex = number === chosen ? 0 : -1; });
    const target = (key, number) => ({
      ArrowRight: columns === 1 ? undefined : number + 1,
      ArrowLeft: columns === 1 ? undefined : number - 1,
      ArrowDown: number + Math.max(1, columns),
      ArrowUp: number - Math.max(1, columns),
      Home: 0,
      End: buttons.length - 1,
    })[key];
  }

  return { say, percent, cosine, pickText, rove };
})();
