const data = JSON.parse(document.getElementById("data").textContent);

function compare(kind, sign) {
  return (a, b) => {
    if (kind === "text") return sign * a.localeCompare(b, undefined, { numeric: true });
    const one = parseFloat(a), two = parseFloat(b);
    if (isNaN(one) || isNaN(two)) return isNaN(one) - isNaN(two);
    return sign * (one - two);
  };
}

function sortTable(heading) {
  const row = heading.parentElement, table = heading.closest("table"), body = table.tBodies[0];
  const place = [...row.children].indexOf(heading);
  const up = heading.getAttribute("aria-sort") !== "ascending";
  for (const other of row.children) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", up ? "ascending" : "descending");
  const order = compare(heading.dataset.sort, up ? 1 : -1);
  const key = (line) => line.children[place].dataset.value ?? line.children[place].textContent.trim();
  body.append(...[...body.rows].sort((a, b) => order(key(a), key(b))));
}

for (const heading of document.querySelectorAll("table.sortable th[data-sort]")) {
  heading.querySelector("button").addEventListener("click", () => sortTable(heading));
}

function made(tag, name, text) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  return element;
}

function marked(text, wanted) {
  const element = made("span", "text");
  element.dir = "auto";
  const lower = text.toLowerCase();
  let start = 0;
  if (wanted && lower.length === text.length) {
    for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, start)) {
      element.append(text.slice(start, at), made("mark", "", text.slice(at, at + wanted.length)));
      start = at + wanted.length;
    }
  }
  element.append(text.slice(start));
  return element;
}

function drawExample(example, wanted, metric) {
  const box = made("div", "example"), heading = made("p"), answers = made("div", "answers");
  const context = marked(example.context || "(no context)", wanted);
  context.style.fontWeight = "600";
  const name = marked(example.id, wanted);
  name.classList.add("soft");
  heading.append(context, " ", name);
  for (const answer of example.answers) {
    const part = made("div"), list = made("ul"), value = answer.values[metric];
    const title = made("span", "soft"), dot = made("span", "dot");
    dot.style.background = data.colours[answer.system];
    title.append(dot, data.systems[answer.system]);
    if (value !== null && value !== undefined) title.append(`, ${data.metrics[metric]} ${value.toFixed(4)}`);
    answer.responses.forEach((response, place) => {
      const line = made("li");
      if (answer.groups.length) line.append(made("span", "group", String(answer.groups[place] + 1)));
      line.append(marked(response, wanted));
      list.append(line);
    });
    if (answer.more) list.append(made("li", "soft", `and ${answer.more} more`));
    part.append(title, list);
    answers.append(part);
  }
  box.append(heading, answers);
  return box;
}

function mean(example, metric) {
  const values = example.answers.map((answer) => answer.values[metric]).filter((value) => value !== null);
  return values.length ? values.reduce((a, b) => a + b, 0) / values.length : NaN;
}

function gap(example, metric) {
  const values = example.answers.map((answer) => answer.values[metric]).filter((value) => value !== null);
  return values.length > 1 ? Math.max(...values) - Math.min(...values) : NaN;
}

function explore() {
  const search = document.getElementById("search"), order = document.getElementById("order");
  const found = document.getElementById("found"), list = document.getElementById("found-examples");
  const more = document.getElementById("more"), step = 10;
  const orders = [];
  data.metrics.forEach((name, metric) => {
    if (data.systems.length > 1) orders.push([`largest difference by ${name}`, metric, (e) => -gap(e, metric)]);
    orders.push([`highest ${name}`, metric, (e) => -mean(e, metric)], [`lowest ${name}`, metric, (e) => mean(e, metric)]);
  });
  orders.forEach(([title], place) => order.append(new Option(title, String(place))));
  const texts = data.examples.map((example) =>
    [example.id, example.context, ...example.answers.flatMap((answer) => answer.responses)].join("\n").toLowerCase());
  let limit = step;
  const show = () => {
    const wanted = search.value.trim().toLowerCase(), [, metric, key] = orders[Number(order.value)];
    const hits = data.examples.filter((_, place) => texts[place].includes(wanted));
    const sorted = hits.map((e) => [key(e), e]).sort(([a], [b]) => isNaN(a) - isNaN(b) || a - b || 0);
    list.replaceChildren(...sorted.slice(0, limit).map(([, e]) => drawExample(e, wanted, metric)));
    found.textContent = `${hits.length} of ${data.examples.length} contexts` +
      (hits.length > limit ? `, the first ${limit} shown` : "");
    more.hidden = hits.length <= limit;
  };
  search.addEventListener("input", () => { limit = step; show(); });
  order.addEventListener("change", () => { limit = step; show(); });
  more.addEventListener("click", () => { limit += 5 * step; show(); });
  show();
}

if (data.examples.length) explore();

let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  for (const one of opened) one.open = true;
});
addEventListener("afterprint", () => { for (const one of opened) one.open = false; });

const options = { actions: false, renderer: "svg", ast: true, defaultStyle: false, config: { background: "transparent" } };
const drawn = Object.entries(data.specs).map(([name, spec]) => window.vegaEmbed(`#chart-${name}`, spec, options));
Promise.all(drawn).then(() => { document.body.dataset.drawn = "yes"; });
