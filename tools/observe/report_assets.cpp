// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/observe/report_assets.h"

#include <array>
#include <charconv>
#include <cstdint>

#include "core/support/digest.h"

namespace ferrite::observe::html {

const std::string_view style = R"(
:root{color-scheme:light dark;--text:#1b1f24;--soft:#5a6470;--line:#d7dce2;--back:#fff;--card:#f5f7f9;
--accent:#0b63b6;--bar:#9cc3ea;--good:#1a7f4b;--bad:#b3402a}
@media(prefers-color-scheme:dark){:root{--text:#e4e8ec;--soft:#9aa5b1;--line:#39424c;--back:#14181d;
--card:#1c2228;--accent:#6cb2f5;--bar:#2d5f92;--good:#5cc48f;--bad:#ef8a73}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:80rem;padding:1rem 1.25rem 4rem;background:var(--back);color:var(--text);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
h1{font-size:1.5rem;margin:.5rem 0 0;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:2.5rem 0 .25rem;padding-top:.5rem;border-top:1px solid var(--line)}
p{margin:.25rem 0 .75rem;max-width:60rem;color:var(--soft)}
p b{color:var(--text)}
nav{margin:.75rem 0;display:flex;flex-wrap:wrap;gap:.25rem 1rem}
a{color:var(--accent)}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(10.5rem,1fr));gap:.75rem;margin:1rem 0}
.card{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:.6rem .8rem}
.card b{display:block;font-size:1.25rem;font-weight:600}
.card span{color:var(--soft);font-size:.85rem}
.wide{overflow-x:auto;border:1px solid var(--line);border-radius:6px}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{padding:.35rem .5rem;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
th{background:var(--card);font-weight:600;white-space:nowrap}
td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
td.name{min-width:11rem;max-width:30rem;overflow-wrap:anywhere}
tr.more td{padding-top:0}
tr.first td{border-bottom:none}
table>tbody:last-child tr:last-child td{border-bottom:none}
tbody:target td{background:var(--card)}
th button{all:unset;cursor:pointer;padding:0 .1rem}
th button::after{content:" \2195";color:var(--soft)}
th[aria-sort=ascending] button::after{content:" \2191";color:var(--text)}
th[aria-sort=descending] button::after{content:" \2193";color:var(--text)}
button:focus-visible,summary:focus-visible,a:focus-visible,.frame:focus-visible{
outline:2px solid var(--accent);outline-offset:2px}
table.fold tbody:nth-of-type(n+21){display:none}
.tools{display:flex;flex-wrap:wrap;gap:.4rem;margin:.5rem 0}
.tools button{font:inherit;color:var(--accent);background:var(--card);border:1px solid var(--line);
border-radius:6px;padding:.25rem .7rem;cursor:pointer}
.share{display:block;min-width:5rem;height:.55rem;margin-top:.4rem;background:var(--card);border-radius:3px}
.share i{display:block;height:100%;background:var(--bar);border-radius:3px}
details{margin:.15rem 0}
summary{cursor:pointer;color:var(--accent)}
pre{margin:.4rem 0;padding:.6rem .8rem;max-height:28rem;overflow:auto;background:var(--card);
border:1px solid var(--line);border-radius:6px;
font:12px/1.45 ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace}
figure{margin:.75rem 0;overflow-x:auto}
svg{display:block;width:100%;min-width:34rem;height:auto}
svg text{font-size:12px;fill:var(--soft)}
details.picture{margin:.75rem 0}
.frame{overflow:auto;max-height:36rem;border:1px solid var(--line);border-radius:6px;background:var(--card)}
svg.graph{width:auto;min-width:0;margin:0 auto}
svg.graph .box{fill:var(--back);stroke:var(--soft)}
svg.graph .timed{fill:var(--bar);stroke:var(--accent)}
svg.graph a:hover .box,svg.graph a:focus .box{stroke-width:2.5}
svg.graph .edge{fill:none;stroke:var(--soft);stroke-opacity:.6}
svg .axis{stroke:var(--line);stroke-width:1}
svg .roof{stroke:var(--bad);stroke-width:1.5;fill:none}
svg .point{fill:var(--bar);stroke:var(--accent);fill-opacity:.75}
svg .label{fill:var(--text)}
svg .peak{stroke:var(--bad);stroke-dasharray:5 4}
svg .buffer{stroke:var(--back);stroke-width:.6}
.note{background:var(--card);border-left:3px solid var(--accent);padding:.5rem .8rem;margin:.75rem 0}
code{font:.9em ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace}
@media(max-width:46rem){
body{padding:.75rem .75rem 3rem}
table.sorts,table.sorts tbody{display:block}
table.sorts thead{display:block;border-bottom:1px solid var(--line)}
table.sorts thead tr{display:flex;flex-wrap:wrap;gap:.1rem .6rem;padding:.4rem .6rem;background:var(--card)}
table.sorts th{padding:0;border:none;font-size:.85rem}
table.sorts tbody{border-bottom:1px solid var(--line);padding:.4rem .6rem}
table.sorts tr.first{display:grid;grid-template-columns:1fr 1fr;gap:.1rem 1rem}
table.sorts tr.more{display:block}
table.sorts td{display:block;padding:0;border:none;text-align:left;white-space:normal;min-width:0}
table.sorts td[data-label]::before{content:attr(data-label) " ";color:var(--soft);font-size:.85em}
table.sorts td.name{grid-column:1/-1;grid-row:1;max-width:none}
table.sorts.fold tbody:nth-of-type(n+21){display:none}
td.name{min-width:10rem}
}
@media print{table.fold tbody:nth-of-type(n+21){display:table-row-group}.tools{display:none}}
)";

const std::string_view script = R"(
"use strict";
const make = (parent, text, act) => {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = text;
  button.addEventListener("click", () => act(button));
  parent.append(button);
  return button;
};
const tools = (before) => {
  const bar = document.createElement("div");
  bar.className = "tools";
  before.before(bar);
  return bar;
};
for (const table of document.querySelectorAll("table.sorts")) {
  const bodies = [...table.tBodies], shown = 20;
  const value = (body, column) => {
    const cell = body.rows[0].cells[column];
    if (!("value" in cell.dataset)) return cell.textContent.trim();
    return cell.dataset.value === "" ? null : Number(cell.dataset.value);
  };
  const compare = (a, b) => typeof a === "number" ? a - b : a.localeCompare(b);
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const text = head.textContent;
    head.textContent = "";
    head.scope = "col";
    make(head, text, () => {
      const known = head.getAttribute("aria-sort");
      const numbers = head.classList.contains("n") && column > 0;
      const down = known ? known === "ascending" : numbers;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const sorted = [...bodies].sort((x, y) => {
        const a = value(x, column), b = value(y, column);
        if (a === null || b === null) return (a === null) - (b === null);
        return down ? compare(b, a) : compare(a, b);
      });
      table.append(...sorted);
    });
  });
  heads[1].setAttribute("aria-sort", "descending");
  if (bodies.length > shown) {
    const bar = document.createElement("div");
    bar.className = "tools";
    table.parentElement.after(bar);
    const fold = (button, folded) => {
      table.classList.toggle("fold", folded);
      button.setAttribute("aria-expanded", String(!folded));
      button.textContent = folded ? `Show all ${bodies.length} kernels` : `Show ${shown} kernels`;
    };
    const button = make(bar, "", () => fold(button, !table.classList.contains("fold")));
    fold(button, true);
    const reach = () => {
      const body = location.hash.startsWith("#kernel-") && document.getElementById(location.hash.slice(1));
      if (!body || body.offsetParent !== null) return;
      fold(button, false);
      body.scrollIntoView();
    };
    addEventListener("hashchange", reach);
    reach();
  }
}
for (const svg of document.querySelectorAll("svg.graph")) {
  const width = svg.width.baseVal.value, all = Number(svg.dataset.height);
  let height = svg.height.baseVal.value, scale = 1;
  const folded = height;
  const draw = () => {
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("width", width * scale);
    svg.setAttribute("height", height * scale);
  };
  const zoom = (factor) => {
    scale = Math.min(4, Math.max(0.1, factor));
    draw();
  };
  const frame = svg.parentElement, bar = tools(frame);
  const begin = () => { frame.scrollLeft = svg.dataset.x * scale - frame.clientWidth / 2; };
  begin();
  frame.parentElement.addEventListener("toggle", begin, {once: true});
  make(bar, "Larger", () => zoom(scale * 1.25));
  make(bar, "Smaller", () => zoom(scale / 1.25));
  make(bar, "Fit width", () => zoom(frame.clientWidth / width));
  make(bar, "100 %", () => zoom(1));
  if (all > folded) {
    const button = make(bar, `Show all ${svg.dataset.boxes}`, () => {
      height = height === folded ? all : folded;
      button.textContent = height === all ? "Show the first ones" : `Show all ${svg.dataset.boxes}`;
      button.setAttribute("aria-expanded", String(height === all));
      draw();
    });
    button.setAttribute("aria-expanded", "false");
  }
}
)";

std::string policy_source(std::string_view text) {
  static constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto hex = core::sha256(text);
  std::array<uint8_t, 33> bytes{};  // a digest of 32 bytes, and one byte of padding for base64
  for (size_t k = 0; 2 * k < hex.size(); ++k)
    std::from_chars(hex.data() + 2 * k, hex.data() + 2 * k + 2, bytes[k], 16);
  std::string source = "sha256-";
  for (size_t k = 0; k < bytes.size(); k += 3) {
    const uint32_t three = uint32_t{bytes[k]} << 16 | uint32_t{bytes[k + 1]} << 8 | bytes[k + 2];
    for (const int shift : {18, 12, 6, 0}) source += digits[three >> shift & 63U];
  }
  source.back() = '=';
  return source;
}

}  // namespace ferrite::observe::html
