// What the figures of a page share: the table of their kinds, the theme, charts that follow it, and how they start.
"use strict";

const bertie = (() => {
  const root = document.documentElement;
  const redraws = [];
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const shared = read("shared-words");
  const numbers = [3, 4, 6].map((maximumSignificantDigits) => new Intl.NumberFormat(root.lang, { maximumSignificantDigits }));

  // A new element with attributes and children; text is text, never HTML.
  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  // The colour of this name in the style sheet, as the theme has it now: colour("series-1"), colour("ink"). `share` makes
  // it as transparent.
  function colour(name, share = 1) {
    const probe = make("span");
    probe.style.color = `var(--${name})`;
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return share === 1 ? found : found.replace(/^rgba?\(([^,]+,[^,]+,[^,)]+).*\)$/, `rgba($1, ${share})`);
  }

  // A number as people read it in the language of the page.
  function format(number) {
    if (number === null || number === undefined || Number.isNaN(number)) return "–";
    const size = Math.abs(number);
    if (size !== 0 && (size < 1e-3 || size >= 1e12)) return Number(number.toPrecision(3)).toExponential();
    return numbers[Number.isInteger(number) || size >= 1000 ? 2 : 1].format(number);
  }

  const onTheme = (redraw) => redraws.push(redraw);

  // What the figure that the element is in says in words.
  const caption = (element) => element.closest("figure").querySelector("figcaption");

  // A chart in the element, for those who do not see it named by the figure's text where it has no name of its own. `options` is called for ECharts' options now, and anew when the theme changes.
  function chart(element, options) {
    element.classList.add("chart");
    if (!element.hasAttribute("role")) element.setAttribute("role", "img");
    if (!element.hasAttribute("aria-label")) element.setAttribute("aria-labelledby", caption(element).id);
    const drawn = echarts.init(element, null, { renderer: "canvas" });
    const draw = () => drawn.setOption({ ...themed(), ...options() }, { notMerge: false });
    draw();
    onTheme(draw);
    new ResizeObserver(() => drawn.resize()).observe(element);
    return drawn;
  }

  const themed = () => ({
    color: [1, 2, 3, 4, 5, 6, 7, 8].map((number) => colour(`series-${number}`)),
    textStyle: { color: colour("ink"), fontFamily: getComputedStyle(document.body).fontFamily },
    animation: false,
  });

  // How axes look; the rest of an axis is put in.
  const axis = (rest) => ({
    axisLine: { lineStyle: { color: colour("rule") } },
    axisTick: { lineStyle: { color: colour("rule") } },
    axisLabel: { color: colour("quiet"), hideOverlap: true },
    nameTextStyle: { color: colour("quiet") },
    splitLine: { lineStyle: { color: colour("rule"), opacity: 0.6 } },
    ...rest,
  });

  // A tooltip drawn on the chart's canvas: the page's policy has no room for HTML with styles in it.
  const tooltip = (rest) => ({
    renderMode: "richText",
    confine: true,
    backgroundColor: colour("raised"),
    borderColor: colour("rule"),
    textStyle: { color: colour("ink"), fontSize: 13 },
    ...rest,
  });

  function startTheme() {
    const button = document.getElementById("theme");
    const names = ["automatic", "light", "dark"];
    const kept = () => { try { return localStorage.getItem("bertie-theme"); } catch { return null; } };
    const keep = (name) => { try { localStorage.setItem("bertie-theme", name); } catch { /* a page on disk may have no store */ } };
    const set = (name) => {
      if (name === "automatic") delete root.dataset.theme; else root.dataset.theme = name;
      button.textContent = shared.theme.replace("{name}", shared[name]);
      for (const redraw of redraws) redraw();
    };
    let now = names.includes(kept()) ? kept() : "automatic";
    button.addEventListener("click", () => { now = names[(names.indexOf(now) + 1) % names.length]; keep(now); set(now); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => set(now));
    addEventListener("beforeprint", () => { for (const details of document.querySelectorAll("details")) details.open = true; });
    button.hidden = false;
    set(now);
  }

  // Figures are drawn as they come into sight, the others when there is nothing else to do; all of them before a jump to
  // another section, since what is drawn above it would push that away.
  function startFigures() {
    const waiting = new Set(document.querySelectorAll(".figure"));
    const drawNow = (element) => { if (waiting.delete(element)) draw(element); };
    const drawAll = () => waiting.forEach(drawNow);
    const observer = new IntersectionObserver((entries) => {
      for (const { isIntersecting, target } of entries) if (isIntersecting) drawNow(target);
    }, { rootMargin: "600px" });
    const idle = globalThis.requestIdleCallback ?? ((work) => setTimeout(work, 50));
    const drawNext = () => {
      const [next] = waiting;
      if (!next) return;
      drawNow(next);
      idle(drawNext);
    };
    waiting.forEach((element) => observer.observe(element));
    document.querySelector("nav").addEventListener("click", drawAll);
    addEventListener("beforeprint", drawAll);
    if (location.hash) {
      drawAll();
      document.getElementById(location.hash.slice(1))?.scrollIntoView();
    }
    idle(drawNext);
  }

  function draw(element) {
    try {
      bertie.kinds[element.dataset.kind](element, read(`${element.id}-data`), read(`${element.id}-words`));
      element.dataset.state = "drawn";
    } catch (error) {
      element.dataset.state = "failed";
      element.replaceChildren(make("p", { class: "failed" }, shared.failed));
      const table = element.closest("section").querySelector("details");
      if (table) table.open = true;
      console.error(element.id, error);
    }
  }

  document.addEventListener("DOMContentLoaded", () => { startTheme(); startFigures(); });
  return { kinds: {}, make, colour, format, onTheme, chart, axis, tooltip };
})();
