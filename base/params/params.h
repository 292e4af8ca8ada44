// clang-format off
// One declaration per hyperparameter. A component's parameters are a plain struct whose function
// `fields` names each member once, with its documentation and rules:
//
//   struct Params {
//     double smoothing = 0.1;
//     void fields(auto&& f) {
//       f("smoothing", smoothing, "share of the label spread over all classes", in(0, 1));
//     }
//     std::string check() const;  // optional: "" or the contradictions, a line each
//   };
//
// Recipes, overrides, help, dumps and documentation all use it. A line of check() that starts with
// "key: " is reported at that key.
// clang-format on
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/params/value.h"
#include "base/time.h"

namespace composer {

/// A condition on a value beyond its type. It applies to each item of a list, to the value of an
/// optional if there is one, and to the number of a Time.
struct Rule {
  enum class Kind { in, at_least, above, one_of, required };

  Kind kind;
  double low = 0, high = 0;
  std::vector<std::string> words;
  std::optional<double> exception;

  /// Also allows a number that the rule forbids: at_least(1).or_exactly(-1).
  Rule or_exactly(double number) const;
  /// "in [0, 1]", "at least 1, or -1", "resize or crop"; empty for `required`.
  std::string text() const;
  bool allows(double number) const;
};
using Rules = std::vector<Rule>;

Rule in(double low, double high);
Rule at_least(double low);
Rule above(double low);
inline const Rule required{.kind = Rule::Kind::required, .words = {}, .exception = {}};

Rule one_of(std::vector<std::string> words);

/// The texts of the rules, for people: "above 0, in [1, 3]"; empty where no rule has one.
std::string rules_text(const Rules& rules);

template <std::convertible_to<std::string>... Words>
Rule one_of(Words... words) {
  return one_of(std::vector<std::string>{std::string(words)...});
}

struct Field;

/// The fields of one struct of parameters, bound to that object: it must outlive them.
struct FieldSet {
  std::vector<Field> fields;
  std::function<std::string()> check;  ///< may be empty
};

/// One hyperparameter, whatever its type.
struct Field {
  std::string name, doc;
  std::string type;  ///< "number", "list of text", "time or none"; empty for a nested struct
  Rules rules;       ///< the conditions on the value
  bool required = false;
  bool flag = false;  ///< true: a bool, whose option without a value means true
  bool list = false;  ///< true: takes several words

  /// Sets the member from `value`, or leaves it and adds to `problems`.
  std::function<void(const Value& value, const std::string& path, Problems& problems)> read;
  std::function<Value()> write;
  /// Adds the problems of the member's present value.
  std::function<void(const std::string& path, Problems& problems)> check;
  FieldSet nested;  ///< the fields of a nested struct
};

/// Types of fields. read_value leaves `out` alone and reports when `value` does not fit. Numbers:
/// no nan, no inf. Text and optional: `none` and an empty value mean "" and nothing. Lists: one
/// value stands for a list of one.
void read_value(const Value& value, const Rules& rules, const std::string& path, bool& out,
                Problems& problems);
void read_value(const Value& value, const Rules& rules, const std::string& path, int64_t& out,
                Problems& problems);
void read_value(const Value& value, const Rules& rules, const std::string& path, double& out,
                Problems& problems);
void read_value(const Value& value, const Rules& rules, const std::string& path, std::string& out,
                Problems& problems);
void read_value(const Value& value, const Rules& rules, const std::string& path, Time& out,
                Problems& problems);

/// Adds the problems that read_value() would report for a value that no file or option has.
template <class T>
void check_value(const T&, const Rules&, const std::string&, Problems&) {}
void check_value(int64_t value, const Rules& rules, const std::string& path, Problems& problems);
void check_value(double value, const Rules& rules, const std::string& path, Problems& problems);
void check_value(const std::string& value, const Rules& rules, const std::string& path,
                 Problems& problems);
void check_value(Time value, const Rules& rules, const std::string& path, Problems& problems);

Value write_value(bool value);
Value write_value(int64_t value);
Value write_value(double value);
Value write_value(const std::string& value);
Value write_value(const Time& value);

template <class T>
struct FieldType;  // only the types below can be fields
template <>
struct FieldType<bool> {
  static std::string name() { return "true or false"; }
};
template <>
struct FieldType<int64_t> {
  static std::string name() { return "whole number"; }
};
template <>
struct FieldType<double> {
  static std::string name() { return "number"; }
};
template <>
struct FieldType<std::string> {
  static std::string name() { return "text"; }
};
template <>
struct FieldType<Time> {
  static std::string name() { return "time"; }
};
template <class T>
struct FieldType<std::optional<T>> {
  static std::string name() { return FieldType<T>::name() + " or none"; }
};
template <class T>
struct FieldType<std::vector<T>> {
  static std::string name() { return "list of " + FieldType<T>::name(); }
};

template <class T>
void read_value(const Value& value, const Rules& rules, const std::string& path,
                std::optional<T>& out, Problems& problems) {
  if (value.none()) return out.reset();
  const size_t before = problems.size();
  T read{};
  read_value(value, rules, path, read, problems);
  if (problems.size() == before) out = std::move(read);
}

template <class T>
void read_value(const Value& value, const Rules& rules, const std::string& path,
                std::vector<T>& out, Problems& problems) {
  const size_t before = problems.size();
  std::vector<T> read;
  const auto add = [&](const Value& item) {
    T one{};
    read_value(item, rules, path, one, problems);
    read.push_back(std::move(one));
  };
  if (value.kind == Value::Kind::list) {
    for (const Value& item : value.items) add(item);
  } else if (!value.none()) {
    add(value);
  }
  if (problems.size() == before) out = std::move(read);
}

template <class T>
void check_value(const std::optional<T>& value, const Rules& rules, const std::string& path,
                 Problems& problems) {
  if (value) check_value(*value, rules, path, problems);
}

template <class T>
void check_value(const std::vector<T>& value, const Rules& rules, const std::string& path,
                 Problems& problems) {
  for (const T& item : value) check_value(item, rules, path, problems);
}

template <class T>
Value write_value(const std::optional<T>& value) {
  return value ? write_value(*value) : Value{};
}

template <class T>
Value write_value(const std::vector<T>& value) {
  Value list = Value::list();
  for (const T& item : value) list.items.push_back(write_value(item));
  return list;
}

template <class T>
concept ParamsStruct = requires(T params) {
  params.fields([](auto&&...) {});
};

template <class T>
inline constexpr bool is_vector = false;
template <class T>
inline constexpr bool is_vector<std::vector<T>> = true;

template <ParamsStruct P>
FieldSet collect(P& params);

/// The argument of a struct's fields().
class FieldCollector {
 public:
  explicit FieldCollector(FieldSet& set) : set_(set) {}

  template <class T, std::same_as<Rule>... R>
  void operator()(const char* name, T& value, const char* doc, const R&... rules) {
    Field field = start(name, doc, Rules{rules...});
    if constexpr (ParamsStruct<T>) {
      field.nested = collect(value);
    } else {
      field.type = FieldType<T>::name();
      field.flag = std::is_same_v<T, bool>;
      field.list = is_vector<T>;
      field.read = [&value, all = field.rules](const Value& from, const std::string& path,
                                               Problems& problems) {
        read_value(from, all, path, value, problems);
      };
      field.write = [&value] { return write_value(value); };
      field.check = [&value, all = field.rules](const std::string& path, Problems& problems) {
        check_value(value, all, path, problems);
      };
    }
    set_.fields.push_back(std::move(field));
  }

 private:
  static Field start(const char* name, const char* doc, Rules rules);

  FieldSet& set_;
};

/// The fields of `params`, bound to it.
template <ParamsStruct P>
FieldSet collect(P& params) {
  FieldSet set;
  FieldCollector collector(set);
  params.fields(collector);
  if constexpr (requires { params.check(); }) set.check = [&params] { return params.check(); };
  return set;
}

/// "path.key".
std::string join_path(const std::string& path, const std::string& key);

/// Sets all fields from `map`, whose key has the dotted `path`. Adds its problems: unknown keys,
/// types, rules, missing required keys, and the lines of check(), except lines that name a key with
/// a problem: such a key keeps its old value.
void read_fields(const Value& map, const FieldSet& set, const std::string& path,
                 Problems& problems);

/// Adds the problems of the fields' present values: rules, and the lines of check().
void check_fields(const FieldSet& set, const std::string& path, Problems& problems);

/// All fields as a map.
Value write_fields(const FieldSet& set);

/// The documentation of a field: name (dotted for nested fields), type and rules, default, text.
struct FieldDoc {
  std::string name, type, default_text, doc;
};
std::vector<FieldDoc> describe(const FieldSet& set);

/// The lines of describe() as an aligned text, each line indented by two spaces.
std::string help_text(const FieldSet& set);

}  // namespace composer
