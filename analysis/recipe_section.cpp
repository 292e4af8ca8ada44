#include "analysis/recipe_section.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "analysis/markup.h"
#include "analysis/recipe_difference.h"

namespace composer {
namespace {

/// Key and value of a line of YAML apart. Lines without a key stay as they are.
std::string marked_line(const std::string& line) {
  const size_t colon = line.find(':');
  if (colon == std::string::npos || line.find_first_of("'\"[{") < colon) return escaped(line);
  return element("b", {}, escaped(line.substr(0, colon))) + ":" + escaped(line.substr(colon + 1));
}

/// A dotted key that narrow pages break between its words.
std::string breakable(const std::string& key) {
  std::string text;
  for (const char c : key) text += escaped({&c, 1}) + (c == '.' || c == '_' ? "<wbr>" : "");
  return text;
}

}  // namespace

std::string recipe_text(const Run& run) {
  if (run.recipe_text.empty()) return "";
  std::istringstream in(run.recipe_text);
  std::string block, blocks;
  const auto end_block = [&] {
    if (!block.empty()) blocks += element("span", {{"class", "block"}}, block);
    block.clear();
  };
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(' ') && !line.starts_with('-')) end_block();
    block += marked_line(line) + "\n";
  }
  end_block();
  return element("pre", {{"class", "recipe"}}, blocks);
}

std::string difference_table(const std::vector<Run>& runs) {
  const auto differences = recipe_differences(runs);
  if (differences.empty()) return element("p", {}, "Nothing: all have the same settings.");
  std::string head = element("th", {}, ""), rows;
  for (const auto& run : runs) head += element("th", {}, escaped(run.name));
  auto json = nlohmann::ordered_json::object();
  for (const auto& [key, settings, values] : differences) {
    std::string cells =
        element("th", {{"scope", "row"}}, breakable(key) + element("small", {}, escaped(settings)));
    for (const auto& value : values) {
      cells +=
          element("td", {}, value ? escaped(*value) : element("span", {{"class", "faded"}}, "–"));
      json[key].push_back(value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json());
    }
    rows += element("tr", {}, cells);
  }
  return element(
             "div", {{"class", "wide"}},
             element("table", {{"class", "differences"}},
                     element("thead", {}, element("tr", {}, head)) + element("tbody", {}, rows))) +
         data_element("id", "recipe-differences", json);
}

}  // namespace composer
