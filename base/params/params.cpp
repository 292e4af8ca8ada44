#include "base/params/params.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <ranges>
#include <sstream>

#include "base/text.h"

namespace composer {
namespace {

/// The shortest digits that read back as `number`, always with a dot: YAML 1.1 has no number 5e-04.
std::string digits(double number) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  std::string out(text.data(), end);
  if (out.find('.') == std::string::npos) out.insert(std::min(out.find('e'), out.size()), ".0");
  return out;
}

/// Short digits for people: 1 and 1000000, not 1.0 and 1.0e+06.
std::string brief(double number) {
  const bool whole = std::abs(number) < 1e15 && number == std::floor(number);
  return whole ? std::to_string(static_cast<int64_t>(number)) : digits(number);
}

std::string join(const std::vector<std::string>& words) {
  std::string out;
  for (size_t i = 0; i < words.size(); ++i)
    out += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  return out;
}

void report(const Value& value, const std::string& path, std::string message, Problems& problems) {
  problems.push_back({value.origin, path, std::move(message)});
}

void wrong_type(const Value& value, const std::string& path, const std::string& expected,
                Problems& problems) {
  report(value, path, "must be " + expected + ", not " + value.quote(), problems);
}

/// Checks the rules about words. False, and a problem, for a word that is not allowed.
bool words_allowed(const Value& value, const Rules& rules, const std::string& path,
                   Problems& problems) {
  if (value.kind != Value::Kind::scalar) return true;
  for (const Rule& rule : rules) {
    const bool listed = std::ranges::find(rule.words, value.text) != rule.words.end();
    if (rule.kind == Rule::Kind::one_of && !listed) {
      report(value, path,
             "must be " + rule.text() + ", not '" + value.text + "'" +
                 did_you_mean(value.text, rule.words),
             problems);
      return false;
    }
  }
  return true;
}

bool number_allowed(double number, const Value& value, const Rules& rules, const std::string& path,
                    Problems& problems) {
  for (const Rule& rule : rules)
    if (!rule.allows(number)) {
      report(value, path, "must be " + rule.text() + ", not " + value.text, problems);
      return false;
    }
  return true;
}

/// Reads the whole of a scalar's text as a number. type and out_of_range: for messages.
template <class T>
void read_number(const Value& value, const Rules& rules, const std::string& path,
                 const std::string& type, const std::string& out_of_range, T& out,
                 Problems& problems) {
  if (!words_allowed(value, rules, path, problems)) return;
  std::string_view text;
  if (value.kind == Value::Kind::scalar) text = value.text;
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range)
    report(value, path, "the number " + value.text + out_of_range, problems);
  else if (error != std::errc{} || end != text.data() + text.size() ||
           !std::isfinite(static_cast<double>(number)))
    wrong_type(value, path, type, problems);
  else if (number_allowed(static_cast<double>(number), value, rules, path, problems))
    out = number;
}

/// Whether `text` has `name` as a whole word.
bool has_word(std::string_view text, std::string_view name) {
  const auto in_word = [&](size_t i) {
    return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_');
  };
  for (size_t at = 0; (at = text.find(name, at)) != std::string_view::npos; ++at)
    if ((at == 0 || !in_word(at - 1)) && !in_word(at + name.size())) return true;
  return false;
}

/// Whether a line of check() names a field that already has a problem.
bool rests_on_problem(const std::string& line, const FieldSet& set, const std::string& path,
                      const Problems& problems) {
  return std::ranges::any_of(set.fields, [&](const Field& field) {
    if (!has_word(line, field.name)) return false;
    const std::string key = join_path(path, field.name);
    return std::ranges::any_of(problems, [&](const Problem& problem) {
      return problem.path == key || problem.path.starts_with(key + ".");
    });
  });
}

/// Reports each line of check() at the key that it names, else at the map.
void report_check(const std::string& said, const Value& map, const FieldSet& set,
                  const std::string& path, Problems& problems) {
  const Problems before = problems;
  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || rests_on_problem(line, set, path, before)) continue;
    const std::string key = line.substr(0, line.find(": "));
    const bool named = key.size() < line.size() &&
                       std::ranges::find(set.fields, key, &Field::name) != set.fields.end();
    const Value* value = named ? map.find(key) : nullptr;
    problems.push_back({value ? value->origin : map.origin, named ? join_path(path, key) : path,
                        named ? line.substr(key.size() + 2) : line});
  }
}

}  // namespace

std::string join_path(const std::string& path, const std::string& key) {
  return path.empty() ? key : path + "." + key;
}

Rule in(double low, double high) {
  return {.kind = Rule::Kind::in, .low = low, .high = high, .words = {}, .exception = {}};
}
Rule at_least(double low) {
  return {.kind = Rule::Kind::at_least, .low = low, .words = {}, .exception = {}};
}
Rule above(double low) {
  return {.kind = Rule::Kind::above, .low = low, .words = {}, .exception = {}};
}
Rule one_of(std::vector<std::string> words) {
  return {.kind = Rule::Kind::one_of, .words = std::move(words), .exception = {}};
}

Rule Rule::or_exactly(double number) const {
  Rule rule = *this;
  rule.exception = number;
  return rule;
}

std::string Rule::text() const {
  const std::string text = kind == Kind::in         ? "in [" + brief(low) + ", " + brief(high) + "]"
                           : kind == Kind::at_least ? "at least " + brief(low)
                           : kind == Kind::above    ? "above " + brief(low)
                                                    : join(words);
  return exception ? text + ", or " + brief(*exception) : text;
}

std::string rules_text(const Rules& rules) {
  std::string all;
  for (const Rule& rule : rules)
    if (const std::string text = rule.text(); !text.empty())
      all += (all.empty() ? "" : ", ") + text;
  return all;
}

bool Rule::allows(double number) const {
  if (exception && number == *exception) return true;
  if (kind == Kind::in) return low <= number && number <= high;
  if (kind == Kind::at_least) return number >= low;
  return kind != Kind::above || number > low;
}

void read_value(const Value& value, const Rules&, const std::string& path, bool& out,
                Problems& problems) {
  static const std::vector<std::string> yes = {"true", "yes", "t", "y"},
                                        no = {"false", "no", "f", "n"};
  const std::string word = lower_case(value.kind == Value::Kind::scalar ? value.text : "");
  const bool in_file = value.origin.option.empty();
  if (std::ranges::find(yes, word) != yes.end() || (in_file && word == "1"))
    out = true;
  else if (std::ranges::find(no, word) != no.end() || (in_file && word == "0"))
    out = false;
  else
    wrong_type(value, path, "true or false", problems);
}

void read_value(const Value& value, const Rules& rules, const std::string& path, int64_t& out,
                Problems& problems) {
  read_number(value, rules, path, "a whole number", " is too large", out, problems);
}

void read_value(const Value& value, const Rules& rules, const std::string& path, double& out,
                Problems& problems) {
  read_number(value, rules, path, "a number", " is too large or too small", out, problems);
}

void read_value(const Value& value, const Rules& rules, const std::string& path, std::string& out,
                Problems& problems) {
  if (value.kind == Value::Kind::list || value.kind == Value::Kind::map)
    return wrong_type(value, path, "text", problems);
  const auto chosen = std::ranges::find(rules, Rule::Kind::one_of, &Rule::kind);
  if (chosen != rules.end() && value.kind == Value::Kind::null)
    return wrong_type(value, path, chosen->text(), problems);
  if (!words_allowed(value, rules, path, problems)) return;
  out = chosen == rules.end() && value.none() ? "" : value.text;
}

void read_value(const Value& value, const Rules& rules, const std::string& path, Time& out,
                Problems& problems) {
  if (value.kind != Value::Kind::scalar)
    return wrong_type(value, path, "a time such as 90ep or 500ba", problems);
  if (!words_allowed(value, rules, path, problems)) return;
  std::string why;
  const auto time = Time::parse(value.text, &why);
  if (!time)
    report(value, path, "the time '" + value.text + "' " + why, problems);
  else if (number_allowed(time->value, value, rules, path, problems))
    out = *time;
}

void check_value(int64_t value, const Rules& rules, const std::string& path, Problems& problems) {
  number_allowed(static_cast<double>(value), write_value(value), rules, path, problems);
}

void check_value(double value, const Rules& rules, const std::string& path, Problems& problems) {
  if (std::isfinite(value))
    number_allowed(value, write_value(value), rules, path, problems);
  else
    wrong_type(write_value(value), path, "a number", problems);
}

void check_value(const std::string& value, const Rules& rules, const std::string& path,
                 Problems& problems) {
  words_allowed(write_value(value), rules, path, problems);
}

void check_value(Time value, const Rules& rules, const std::string& path, Problems& problems) {
  const auto written = write_value(value);
  if (const auto why = value.problem(); !why.empty())
    report(written, path, "the time '" + written.text + "' " + why, problems);
  else
    number_allowed(value.value, written, rules, path, problems);
}

Value write_value(bool value) { return Value::scalar(value ? "true" : "false"); }
Value write_value(int64_t value) { return Value::scalar(std::to_string(value)); }
Value write_value(double value) { return Value::scalar(digits(value)); }
Value write_value(const std::string& value) { return Value::string(value); }
Value write_value(const Time& value) { return Value::scalar(value.str()); }

Field FieldCollector::start(const char* name, const char* doc, Rules rules) {
  Field field;
  field.name = name;
  field.doc = doc;
  field.required = std::ranges::find(rules, Rule::Kind::required, &Rule::kind) != rules.end();
  field.rules = std::move(rules);
  return field;
}

namespace {

/// The message for an unknown key.
std::string why_unknown(const std::string& key, const FieldSet& set) {
  std::vector<std::string> known;
  for (const Field& field : set.fields) known.push_back(field.name);
  std::vector<std::string> parts;
  for (const auto part : std::views::split(key, '.')) parts.emplace_back(part.begin(), part.end());
  const bool is_path = std::ranges::find(parts, "") == parts.end() && parts.size() > 1;
  if (!is_path || std::ranges::find(known, parts[0]) == known.end())
    return "unknown key" + suggestion(key, known);
  std::string nested;
  for (const auto& part : parts) nested += (nested.empty() ? "" : ": {") + part;
  return "unknown key; in a file keys are nested: " + nested + ": ..." +
         std::string(parts.size() - 1, '}');
}

}  // namespace

void read_fields(const Value& map, const FieldSet& set, const std::string& path,
                 Problems& problems) {
  if (map.kind == Value::Kind::scalar || map.kind == Value::Kind::list)
    return wrong_type(map, path, "a map of keys", problems);
  for (const auto& [key, origin, value] : map.entries)
    if (std::ranges::find(set.fields, key, &Field::name) == set.fields.end())
      problems.push_back({origin, join_path(path, key), why_unknown(key, set)});

  for (const Field& field : set.fields) {
    const Value* value = map.find(field.name);
    const std::string key = join_path(path, field.name);
    if (field.required && (!value || value->kind == Value::Kind::null))
      problems.push_back({value ? value->origin : map.origin, key, "missing required key"});
    else if (value && !field.read)
      read_fields(*value, field.nested, key, problems);
    else if (value)
      field.read(*value, key, problems);
  }
  if (set.check) report_check(set.check(), map, set, path, problems);
}

void check_fields(const FieldSet& set, const std::string& path, Problems& problems) {
  for (const Field& field : set.fields)
    if (const auto key = join_path(path, field.name); field.check)
      field.check(key, problems);
    else
      check_fields(field.nested, key, problems);
  if (set.check) report_check(set.check(), Value::map(), set, path, problems);
}

Value write_fields(const FieldSet& set) {
  Value map = Value::map();
  for (const Field& field : set.fields)
    map.set(field.name, field.write ? field.write() : write_fields(field.nested));
  return map;
}

std::vector<FieldDoc> describe(const FieldSet& set) {
  std::vector<FieldDoc> docs;
  for (const Field& field : set.fields) {
    if (!field.write) {
      for (FieldDoc doc : describe(field.nested)) {
        doc.name = field.name + "." + doc.name;
        docs.push_back(std::move(doc));
      }
      continue;
    }
    const std::string rules = rules_text(field.rules);
    docs.push_back({field.name, field.type + (rules.empty() ? "" : ", ") + rules,
                    field.required ? "required" : one_line(field.write()), field.doc});
  }
  return docs;
}

std::string help_text(const FieldSet& set) {
  const auto docs = describe(set);
  size_t name = 0, value = 0;
  for (const FieldDoc& doc : docs) {
    name = std::max(name, doc.name.size());
    value = std::max(value, doc.default_text.size());
  }
  std::string out;
  for (const FieldDoc& doc : docs) {
    out += "  " + doc.name + std::string(name - doc.name.size() + 2, ' ') + doc.default_text +
           std::string(value - doc.default_text.size() + 2, ' ') + doc.doc + " (" + doc.type +
           ")\n";
  }
  return out;
}

}  // namespace composer
