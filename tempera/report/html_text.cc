#include "tempera/report/html_text.h"

#include <fmt/format.h>

namespace tempera::report {
namespace {

constexpr const char* kStyle = R"css(
:root { --ink:#1d2327; --soft:#5d6872; --line:#dfe3e6; --paper:#ffffff; --tint:#f5f6f4; --accent:#b4552d; --good:#2f7d4f; --bad:#b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink:#e8e6e1; --soft:#a3a9ae; --line:#383e43; --paper:#17191b; --tint:#202427; --accent:#e08a5f; --good:#6cc08b; --bad:#f2857d; } }
* { box-sizing:border-box } body { margin:0; font:15px/1.5 system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif; color:var(--ink); background:var(--paper) }
main { max-width:1080px; margin:0 auto; padding:32px 20px 64px } h1 { font-size:22px; margin:0 0 4px } h2 { font-size:16px; margin:36px 0 10px }
.lead { font-size:17px; margin:0 0 20px } .soft { color:var(--soft) } code { font:13px/1.4 ui-monospace,"DejaVu Sans Mono",monospace; overflow-wrap:anywhere }
.cards { display:grid; grid-template-columns:repeat(auto-fit,minmax(170px,1fr)); gap:12px } .card { background:var(--tint); border-radius:8px; padding:12px 16px }
.card b { display:block; font-size:24px; font-weight:600; font-variant-numeric:tabular-nums } .card span { color:var(--soft); font-size:13px }
.scroll { overflow-x:auto } table { border-collapse:collapse; width:100%; font-variant-numeric:tabular-nums } th,td { text-align:right; padding:6px 10px; border-bottom:1px solid var(--line); vertical-align:top }
th { color:var(--soft); font-weight:500; font-size:13px } th:first-child,td:first-child,td.text,th.text { text-align:left } tr.chosen td { background:var(--tint); font-weight:600 }
.bar { height:8px; border-radius:4px; background:var(--accent); min-width:2px } .bar.before { background:var(--soft); opacity:.55; margin-bottom:2px } td.bars { width:34%; min-width:160px }
.good { color:var(--good) } .bad { color:var(--bad) } .pictures { display:grid; grid-template-columns:repeat(auto-fit,minmax(220px,1fr)); gap:10px; margin-bottom:18px }
figure { margin:0 } figure img { width:100%; border-radius:6px; display:block; image-rendering:pixelated; background:var(--tint) } figcaption { color:var(--soft); font-size:13px; padding-top:4px }
details { border-bottom:1px solid var(--line); padding:6px 0 } summary { cursor:pointer } details ul { margin:6px 0; padding-left:20px } dl { display:grid; grid-template-columns:max-content 1fr; gap:4px 16px; margin:0 } dt { color:var(--soft) } dd { margin:0; overflow-wrap:anywhere }
.charts { display:grid; grid-template-columns:repeat(auto-fit,minmax(320px,1fr)); gap:16px } .charts svg { width:100%; height:auto } .charts text { font-size:11px; fill:var(--soft) }
.charts .axis { stroke:var(--line) } .charts .budget { stroke:var(--accent); stroke-dasharray:5 4 } .charts .point { fill:var(--soft) } .charts .over { fill:none; stroke:var(--soft) } .charts .pick { fill:var(--accent) } .charts .dot { fill:var(--accent); opacity:.5 } .charts .front { fill:none; stroke:var(--soft); opacity:.6 }
.note { border-left:3px solid var(--accent); padding:4px 12px; margin:8px 0; background:var(--tint) }
)css";

}  // namespace

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string page(const std::string& title, const std::string& command, const std::string& created,
                 const std::string& body) {
  return fmt::format(
      "<!doctype html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport "
      "content=\"width=device-width,initial-scale=1\"><title>{0}</title><style>{1}</style></head><body><main>\n"
      "<h1>{0}</h1>\n<p class=soft><code>{2}</code><br>{3}</p>\n{4}</main></body></html>\n",
      escape(title), kStyle, escape(command), escape(created), body);
}

}  // namespace tempera::report
