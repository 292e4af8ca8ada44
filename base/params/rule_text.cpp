#include "base/params/rule_text.h"

#include <charconv>
#include <string_view>

namespace composer {
namespace {

/// The rest of a text that is read from its beginning.
class RuleText {
 public:
  explicit RuleText(std::string_view text) : rest_(text) {}

  bool ended() const { return rest_.empty(); }

  bool skip(std::string_view beginning) {
    if (!rest_.starts_with(beginning)) return false;
    rest_.remove_prefix(beginning.size());
    return true;
  }

  double number() {
    double value = 0;
    rest_.remove_prefix(std::from_chars(rest_.data(), rest_.data() + rest_.size(), value).ptr -
                        rest_.data());
    return value;
  }

  /// Up to `separator`, which is taken too, or the end.
  std::string word(std::string_view separator) {
    const std::string word(rest_.substr(0, rest_.find(separator)));
    rest_.remove_prefix(std::min(rest_.size(), word.size() + separator.size()));
    return word;
  }

  bool has(std::string_view part) const { return rest_.find(part) != std::string_view::npos; }

 private:
  std::string_view rest_;
};

Rule read_rule(RuleText& text) {
  if (text.skip("in [")) {
    const double low = text.number();
    text.skip(", ");
    Rule rule = in(low, text.number());
    text.skip("]");
    return rule;
  }
  if (text.skip("at least ")) return at_least(text.number());
  if (text.skip("above ")) return above(text.number());
  std::vector<std::string> words;
  while (text.has(", ")) words.push_back(text.word(", "));
  while (!text.ended()) words.push_back(text.word(" or "));
  return one_of(std::move(words));
}

}  // namespace

Rules rules_of(const Field& field) {
  Rules rules;
  for (RuleText text(field.rules); !text.ended(); text.skip(", ")) {
    rules.push_back(read_rule(text));
    if (text.skip(", or ")) rules.back() = rules.back().or_exactly(text.number());
  }
  return rules;
}

}  // namespace composer
