"""Style sheet of the HTML report."""

from __future__ import annotations

from typing import Final

__all__ = ["CSS"]

CSS: Final = """
:root { --page: #fbfaf7; --ink: #1b2a41; --soft: #55606e; --line: #dcdfe4; --card: #ffffff; --link: #30298f;
  --stripe: #f4f3ee; --mark: #30298f; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14181f; --ink: #e6e9ee; --soft: #a9b3c0; --line: #343c48; --card: #1b2029; --link: #a9b8ff;
    --stripe: #20262f; --mark: #a9b8ff; }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; padding: 0 clamp(1rem, 4vw, 4rem) 4rem; background: var(--page); color: var(--ink); font:
  1.0625rem/1.6 Charter, "Bitstream Charter", "Iowan Old Style", Cambria, Georgia, serif; overflow-wrap:
  anywhere; }
header, nav, main, footer { max-width: 84rem; margin-inline: auto; }
header { padding-top: clamp(2rem, 6vw, 4.5rem); }
h1, h2, h3, nav, table, figcaption, .notes, .legend, dl, summary, footer, .remark { font-family: system-ui,
  -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: clamp(2rem, 5vw, 3rem); line-height: 1.1; letter-spacing: -0.02em; margin: 0; }
h2 { font-size: 1.6rem; line-height: 1.2; letter-spacing: -0.01em; margin: 3.5rem 0 0.75rem; padding-top:
  1.25rem; border-top: 2px solid var(--ink); }
h3 { font-size: 1.15rem; margin: 2.5rem 0 0.75rem; }
p, ul.findings, dl { max-width: 44rem; }
.lead { color: var(--soft); font-size: 1.15rem; margin: 0.75rem 0 1.5rem; }
a { color: var(--link); text-underline-offset: 0.15em; }
nav ul { display: flex; flex-wrap: wrap; gap: 0.4rem 1.25rem; list-style: none; padding: 0; margin: 0;
  font-size: 0.95rem; }
.findings { padding-left: 1.1rem; margin: 1rem 0 1.5rem; }
.findings li { margin-bottom: 0.6rem; }
.findings li::marker { color: var(--mark); }
.legend { display: flex; flex-wrap: wrap; gap: 0.2rem 1.25rem; font-size: 0.875rem; color: var(--soft);
  max-width: none; }
.scroll { overflow-x: auto; margin: 1rem 0 0.5rem; border: 1px solid var(--line); border-radius: 8px;
  background: var(--card); max-width: 100%; width: fit-content; }
.scroll:focus-visible, a:focus-visible, summary:focus-visible, pre:focus-visible, .image-box:focus-visible {
  outline: 2px solid var(--link); outline-offset: 2px; }
table { border-collapse: collapse; font-size: 0.875rem; line-height: 1.35; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: 0.75rem 0.9rem 0.5rem; font-weight: 600; white-space: nowrap; }
th, td { padding: 0.4rem 0.75rem; text-align: left; white-space: nowrap; vertical-align: baseline; }
td:last-child { white-space: normal; min-width: 9rem; max-width: 28rem; }
.number, td.number:last-child { text-align: right; white-space: nowrap; min-width: 0; }
.mark { display: inline-block; width: 0.7em; color: var(--mark); font-size: 1.15em; font-weight: 700;
  line-height: 1; }
thead th { border-bottom: 1px solid var(--ink); color: var(--soft); font-weight: 600; }
thead th:first-child { position: sticky; left: 0; background: var(--card); }
tbody th { font-weight: 500; position: sticky; left: 0; background: var(--card); }
tbody tr:nth-child(even) > * { background: var(--stripe); }
.notes { list-style: none; padding: 0; margin: 0 0 1.5rem; font-size: 0.85rem; color: var(--soft); max-width:
  60rem; }
.remark { font-size: 0.9rem; color: var(--soft); }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); gap: 1.5rem;
  align-items: start; margin: 1.5rem 0; }
figure { margin: 0; min-width: 0; }
.image-box { overflow-x: auto; background: #ffffff; border: 1px solid var(--line); border-radius: 8px; padding:
  0.75rem; max-width: 46rem; }
.image-box img { display: block; width: 100%; min-width: 25rem; height: auto; }
.image-box.sheet img { width: auto; max-width: 100%; min-width: 0; max-height: 44rem; }
figcaption { font-size: 0.85rem; color: var(--soft); line-height: 1.45; margin-top: 0.4rem; max-width: 46rem; }
details { margin: 1rem 0; }
summary { cursor: pointer; font-weight: 600; font-size: 0.95rem; }
pre { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding:
  0.9rem 1rem; font-size: 0.875rem; line-height: 1.5; }
code { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
dl { display: grid; grid-template-columns: minmax(6rem, max-content) 1fr; gap: 0.25rem 1.25rem; font-size:
  0.9rem; }
dt { color: var(--soft); }
dd { margin: 0; }
footer { margin-top: 3rem; font-size: 0.85rem; color: var(--soft); }
@media print { body { background: #fff; color: #000; font-size: 10pt; } nav { display: none; } .scroll {
  overflow: visible; } figure, tr { break-inside: avoid; } }
"""
