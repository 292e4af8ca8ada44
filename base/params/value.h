// A recipe as it was written: a tree of values with their origins. Duplicate keys and cycles, which
// YAML's own node tree accepts silently, are refused; positions, which it loses, are kept.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace composer {

/// The origin of a value: a position in a file, an override on the command line, or none (a
/// default).
struct Origin {
  std::string file;
  int line = 0, column = 0;  ///< counted from 1; 0: the whole file
  std::string option;        ///< the override as typed, without dashes; file is empty then
  int position = 0;          ///< the override's position among the words of the command line
};

/// A problem with the key `path` (dotted; may be empty).
struct Problem {
  Origin origin;
  std::string path;
  std::string message;

  /// "resnet50.yaml:17:5: algorithms.blurpool: ..." or "--algorithms.blurpool: ...".
  std::string line() const;
};
using Problems = std::vector<Problem>;

/// A line for each problem, in the order of their origins: files first, then the command line.
std::vector<std::string> lines(Problems problems);

struct Value {
  enum class Kind { null, scalar, list, map };
  struct Entry;

  Kind kind = Kind::null;
  std::string text;            ///< a scalar's text
  bool quoted = false;         ///< true: a scalar in quotes, which is always text
  std::vector<Value> items;    ///< a list's items
  std::vector<Entry> entries;  ///< a map's entries, in order, no key twice
  Origin origin;

  static Value scalar(std::string text, Origin origin = {});
  static Value string(std::string text);  ///< a scalar that reads back as this text
  static Value list(Origin origin = {});
  static Value map(Origin origin = {});

  /// The value under `key` of a map, or null.
  const Value* find(std::string_view key) const;
  Value* find(std::string_view key);
  /// Sets the value under `key`, replacing an old one.
  void set(std::string key, Value value, Origin key_origin = {});

  /// Whether the value means nothing: null, or, without quotes, an empty text, `none`, `null` or
  /// `~`, in letters of any case.
  bool none() const;
  /// The value for messages: 'text', a list, a map, nothing.
  std::string quote() const;
};

struct Value::Entry {
  std::string key;
  Origin origin;
  Value value;
};

/// Reads one YAML document that is a map, or empty. Adds its problems to `problems`. Returns
/// nothing when parts of the document cannot be read.
std::optional<Value> parse_yaml(const std::string& text, const std::string& file,
                                Problems& problems);

/// YAML text that parse_yaml reads back as the same tree.
std::string to_yaml(const Value& value);

/// A value on one line, for help and messages.
std::string one_line(const Value& value);

/// The nearest of `known` to `word` by edit distance; else the shortest known name that begins or
/// ends with `word` as a part; empty when none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

/// "; did you mean 'x'?" for the nearest of `known`, or empty when none is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

/// did_you_mean(); if that is empty, "; one of: ..." for few known names, else nothing.
std::string suggestion(std::string_view word, const std::vector<std::string>& known);

}  // namespace composer
