// Masked words: the tokens of a text, coloured by how sure the model was of each; the chosen one's likeliest pieces.
"use strict";

bertie.kinds["viewer-guesses"] = (element, data, words) => {
  const { make } = bertie;
  const { say, percent, pickText, rove } = bertie.viewer;
  const row = make("div", { class: "viewer-tokens", role: "group", "aria-label": words.tokens });
  const panel = make("div", { class: "viewer-panel", "aria-live": "polite" });
  element.append(
    make("div", { class: "tools" }, ...pickText(data.texts, words.text, openText)),
    make("p", { class: "viewer-hint" }, words.legend), row, panel,
  );
  let text;

  function openText(number) {
    text = data.texts[number];
    row.replaceChildren(...text.tokens.map((token, at) => text.guesses[at]
      ? make("button", { type: "button", class: "viewer-token", "aria-pressed": "false", "data-at": at }, token)
      : make("span", { class: "viewer-token quiet", title: words.none }, token)));
    const buttons = [...row.querySelectorAll("button")];
    rove(buttons, 0, (which) => choose(buttons, which));
    panel.replaceChildren();
    paint();
    if (buttons.length) choose(buttons, hardest(buttons));
  }

  // Where a newcomer sees most: the token that the model was least sure of.
  function hardest(buttons) {
    const scores = buttons.map((button) => text.guesses[button.dataset.at].score);
    return scores.indexOf(Math.min(...scores));
  }

  function paint() {
    for (const button of row.querySelectorAll("button")) {
      button.style.backgroundColor = bertie.colour("series-1", 0.5 * text.guesses[button.dataset.at].score);
    }
  }

  function choose(buttons, which) {
    buttons.forEach((button, number) => {
      button.setAttribute("aria-pressed", number === which);
      button.tabIndex = number === which ? 0 : -1;
    });
    const at = buttons[which].dataset.at;
    const guess = text.guesses[at];
    const bars = guess.best.map(([piece, share]) => {
      const bar = make("span", { class: "viewer-bar", "aria-hidden": "true" });
      bar.style.width = `${100 * share}%`;
      const line = make("li", {}, make("span", { class: "viewer-piece" }, piece), make("span", { class: "viewer-track" }, bar), make("span", { class: "viewer-share" }, percent(share)));
      if (piece === text.tokens[at]) line.classList.add("own");
      return line;
    });
    panel.replaceChildren(
      make("p", {}, say(words.own, { token: text.tokens[at], rank: bertie.format(guess.rank), share: percent(guess.score) })),
      make("ol", { class: "viewer-bars" }, ...bars),
    );
  }

  openText(0);
  bertie.onTheme(paint);
};
