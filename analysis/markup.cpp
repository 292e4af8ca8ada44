#include "analysis/markup.h"

#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "analysis/curve.h"
#include "base/version.h"

namespace composer {
namespace {

std::string opened(std::string_view name, const Attributes& attributes) {
  std::string text = "<" + std::string(name);
  for (const auto& [key, value] : attributes)
    text += " " + std::string(key) + "=\"" + escaped(value) + "\"";
  return text;
}

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

std::string escaped(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  constexpr std::string_view letters = "&<>\"'";
  constexpr std::string_view entities[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
  for (const char c : text) {
    const size_t letter = letters.find(c);
    letter == letters.npos ? safe += c : safe += entities[letter];
  }
  return safe;
}

std::string script_safe(std::string json) {
  for (size_t place = 0; (place = json.find('<', place)) != std::string::npos; place += 6)
    json.replace(place, 1, "\\u003c");
  return json;
}

std::string element(std::string_view name, const Attributes& attributes, std::string_view inner) {
  return opened(name, attributes) + ">" + std::string(inner) + "</" + std::string(name) + ">";
}

std::string element(std::string_view name, const Attributes& attributes) {
  return opened(name, attributes) + "/>";
}

std::string data_element(std::string_view key, const std::string& value,
                         const nlohmann::ordered_json& json) {
  constexpr auto replace = nlohmann::ordered_json::error_handler_t::replace;
  return element("script", {{"type", "application/json"}, {key, value}},
                 script_safe(json.dump(-1, ' ', /*ensure_ascii=*/false, replace)));
}

std::string length_text(double length) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", length == 0 ? 0.0 : length);
  std::string shorter(text);
  shorter.erase(shorter.find_last_not_of('0') + 1);
  if (shorter.ends_with('.')) shorter.pop_back();
  return shorter == "-0" ? "0" : shorter;
}

std::string path_element(const std::string& css, const std::string& d) {
  return element("path", {{"class", css}, {"d", d}});
}

std::string text_at(double x, double y, const std::string& css, std::string_view text) {
  return element("text", {{"x", length_text(x)}, {"y", length_text(y)}, {"class", css}},
                 escaped(text));
}

std::string row_heading(std::string_view inner) { return element("th", {{"scope", "row"}}, inner); }

std::string number_cell(std::string_view inner) {
  return element("td", {{"class", "number"}}, inner);
}

std::string wide_table(const std::string& css, std::string_view head, std::string_view rows) {
  return element(
      "div", {{"class", "wide"}},
      element("table", {{"class", css}},
              element("thead", {}, element("tr", {}, head)) + element("tbody", {}, rows)));
}

std::string section(const std::string& id, const std::string& title, const std::string& inner) {
  if (inner.empty()) return "";
  return element("section", {{"id", id}}, element("h2", {}, title) + inner);
}

std::string page_of(const std::string& title, const std::string& main) {
  const auto footer = element("footer", {}, "composer " + std::string(version) + ", " + now_text());
  return "<!DOCTYPE html><html lang=\"en\">" + head_of(title) + "<body>" + axis_inputs() +
         element("main", {}, main + footer) + element("div", {{"id", "tip"}, {"hidden", ""}}, "") +
         "<script>" + std::string(report_script()) + "</script></body></html>\n";
}

}  // namespace composer
