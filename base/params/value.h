// A recipe as it was written: a tree of values, each of which knows where it came from. What YAML's
// own node tree would lose or accept silently (duplicate keys, cycles, where a value stood) is kept
// or refused here.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace composer {

/// Where a value came from: a place in a file, an override on the command line, or nowhere (a
/// default).
struct Origin {
  std::string file;
  int line = 0, column = 0;  ///< from 1; 0 = the file as a whole
  std::string option;        ///< the override as typed, without dashes; then the rest is empty
  int position = 0;          ///< of the override among the words of the command line
};

/// What is wrong with the key `path` (dotted; may be empty).
struct Problem {
  Origin place;
  std::string path;
  std::string message;

  /// "resnet50.yaml:17:5: algorithms.blurpool: ..." or "--algorithms.blurpool: ...".
  std::string line() const;
};
using Problems = std::vector<Problem>;

/// One line each, in the order of their places: files first, then the command line.
std::vector<std::string> lines(Problems problems);

struct Value {
  enum class Kind { null, scalar, list, map };
  struct Entry;

  Kind kind = Kind::null;
  std::string text;            ///< of a scalar
  bool quoted = false;         ///< a scalar in quotes is text, whatever it says
  std::vector<Value> items;    ///< of a list
  std::vector<Entry> entries;  ///< of a map, in order, no key twice
  Origin origin;

  static Value scalar(std::string text, Origin origin = {});
  static Value string(std::string text);  ///< a scalar that reads back as this text
  static Value list(Origin origin = {});
  static Value map(Origin origin = {});

  /// The value under `key` of a map, or null.
  const Value* find(std::string_view key) const;
  Value* find(std::string_view key);
  /// Puts `value` under `key`, in place of what is there.
  void set(std::string key, Value value, Origin key_origin = {});

  /// Nothing was given: null, or without quotes no text, `none` or, as YAML has it, `null` or `~`,
  /// in letters of any case.
  bool none() const;
  /// For messages: 'text', a list, a map, nothing.
  std::string quote() const;
};

struct Value::Entry {
  std::string key;
  Origin origin;
  Value value;
};

/// Reads one YAML document that is a map, or empty. Everything wrong with it is added to
/// `problems`. Nothing when it is so broken that reading on would only report more of the same.
std::optional<Value> parse_yaml(const std::string& text, const std::string& file,
                                Problems& problems);

/// YAML text that parse_yaml reads back as the same tree.
std::string to_yaml(const Value& value);

/// A value on one line, for help and messages.
std::string one_line(const Value& value);

/// The nearest of `known` to `word` by edit distance; else the shortest one of which it is the
/// first or last part; empty when none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

/// "; did you mean 'x'?" for the nearest of `known`, or empty when none is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

/// did_you_mean(); where that is empty "; one of: ..." when these are few, else nothing.
std::string suggestion(std::string_view word, const std::vector<std::string>& known);

}  // namespace composer
