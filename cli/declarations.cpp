#include "cli/declarations.h"

#include <ranges>
#include <utility>

#include "base/text.h"

namespace composer {
namespace {

std::vector<CommandDoc>* listener = nullptr;

Words split_at(const std::string& text, char separator) {
  Words parts;
  for (const auto part : std::views::split(text, separator))
    parts.emplace_back(part.begin(), part.end());
  return parts;
}

/// The words between the braces that CLI::IsMember and choices() (cli/arguments.h) leave in a
/// type's name.
Words choices_of(const std::string& type_name) {
  const size_t begin = type_name.find('{'), end = type_name.rfind('}');
  if (begin == std::string::npos || end == std::string::npos) return {};
  return split_at(type_name.substr(begin + 1, end - begin - 1), ',');
}

std::string with_first_replaced(std::string text, const std::string& from, const std::string& to) {
  if (const size_t at = text.find(from); at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

/// "INT:INT in [1 - 1024]" in words: "whole number, 1 to 1024".
std::string type_in_words(const std::string& type_name) {
  static const std::map<std::string, std::string> words{{"TEXT", "text"},
                                                        {"INT", "whole number"},
                                                        {"UINT", "whole number"},
                                                        {"FLOAT", "number"},
                                                        {"BOOLEAN", "true, false"},
                                                        {"POSITIVE", "above 0"},
                                                        {"NONNEGATIVE", "at least 0"}};
  Words parts;
  for (std::string part : split_at(type_name, ':')) {
    if (const size_t range = part.find(" in ["); range != std::string::npos)
      part = with_first_replaced(part.substr(range + 5, part.size() - range - 6), " - ", " to ");
    const auto known = words.find(part);
    parts.push_back(known == words.end() ? part : known->second);
  }
  return joined(parts);
}

OptionDoc doc_of(const CLI::Option& option) {
  OptionDoc doc;
  for (const auto& name : option.get_snames()) doc.names.push_back("-" + name);
  for (const auto& name : option.get_lnames()) doc.names.push_back("--" + name);
  doc.positional = doc.names.empty();
  if (doc.positional) doc.names.push_back(option.get_single_name());
  const bool flag = option.get_items_expected_max() == 0;
  const auto type_name = option.get_type_name();
  doc.choices = choices_of(type_name);
  if (!flag) doc.type = doc.choices.empty() ? type_in_words(type_name) : joined(doc.choices);
  doc.initial = flag ? "" : option.get_default_str();
  doc.doc = option.get_description();
  doc.required = option.get_required();
  doc.several = option.get_items_expected_max() > 1;
  return doc;
}

}  // namespace

std::vector<CommandDoc> declarations_of(int (*command)(const Words&)) {
  std::vector<CommandDoc> docs;
  listener = &docs;
  command({});
  listener = nullptr;
  return docs;
}

bool declares() { return listener != nullptr; }

void declare(const CLI::App& app) {
  if (listener == nullptr) return;
  CommandDoc doc{
      .name = app.get_name(),
      .about = app.get_description(),
      .footer = app.get_footer(),
      .options = {},
      .takes_keys = app.get_allow_extras() && app.get_option_no_throw("--file") != nullptr};
  for (const auto* option : app.get_options())
    if (option->get_name() != "--help") doc.options.push_back(doc_of(*option));
  listener->push_back(std::move(doc));
}

}  // namespace composer
