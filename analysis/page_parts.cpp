#include "analysis/page_parts.h"

#include <ctime>

#include "analysis/markup.h"
#include "analysis/report.h"
#include "base/version.h"

namespace composer {
namespace {

/// Which axis the charts are drawn against: works without a script, by the inputs' order in the
/// page.
std::string axis_inputs() {
  std::string inputs;
  for (const auto against : all_against) {
    Attributes attributes{
        {"type", "radio"}, {"name", "against"}, {"id", "against-" + std::string(name(against))}};
    if (against == Against::batch) attributes.emplace_back("checked", "");
    inputs += element("input", attributes);
  }
  return inputs;
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  char text[64];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", std::localtime(&now));
  return text;
}

std::string head_of(const std::string& title) {
  return "<head><meta charset=\"utf-8\">"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
         "<meta name=\"color-scheme\" content=\"light dark\">"
         "<link rel=\"icon\" href=\"data:,\">" +
         element("title", {}, escaped(title) + " · composer") + "<style>" +
         std::string(report_style()) + "</style></head>";
}

}  // namespace

std::string section(const std::string& id, const std::string& title, const std::string& inner) {
  if (inner.empty()) return "";
  return element("section", {{"id", id}}, element("h2", {}, title) + inner);
}

std::string axis_labels() {
  std::string labels;
  for (const auto& [id, text] :
       {std::pair{"batch", "steps"}, {"sample", "images"}, {"seconds", "time"}})
    labels += element("label", {{"for", std::string("against-") + id}}, text);
  return element("div", {{"class", "against"}}, element("span", {}, "against") + labels);
}

std::string figures_of(const std::vector<LineChart>& charts) {
  std::string all;
  for (const auto& chart : charts) all += figure_of(chart);
  return all.empty() ? "" : element("div", {{"class", "charts"}}, all);
}

std::string page_of(const std::string& title, const std::string& main) {
  const auto footer = element("footer", {}, "composer " + std::string(version) + ", " + now_text());
  return "<!DOCTYPE html><html lang=\"en\">" + head_of(title) + "<body>" + axis_inputs() +
         element("main", {}, main + footer) + element("div", {{"id", "tip"}, {"hidden", ""}}, "") +
         "<script>" + std::string(report_script()) + "</script></body></html>\n";
}

}  // namespace composer
