#include "base/params/value.h"

#include <yaml-cpp/anchor.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <sstream>
#include <tuple>
#include <utility>

#include "base/params/utf8.h"
#include "base/text.h"

namespace composer {
namespace {

constexpr size_t max_values = 100'000;  ///< values of one recipe, aliases expanded
constexpr size_t max_quoted = 80;       ///< characters of a value in a message
constexpr size_t max_listed = 140;      ///< characters of alternatives in a message

size_t count(const Value& value) {
  size_t sum = 1;
  for (const Value& item : value.items) sum += count(item);
  for (const auto& entry : value.entries) sum += count(entry.value);
  return sum;
}

/// Builds the tree of one document from the parser's events.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const std::string& file, Problems& problems) : file_(file), problems_(problems) {}

  Value take() { return std::move(root_); }
  bool broken() const { return broken_; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Value value;
    value.origin = at(mark);
    finish(std::move(value), anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    Value value = Value::scalar(text, at(mark));
    value.quoted = tag == "!";
    finish(std::move(value), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    Value value;
    value.origin = at(mark);
    if (found == anchors_.end()) {
      broken(at(mark), "an alias inside what it stands for: a cycle");
    } else if (values_ + count(found->second) > max_values) {
      if (!std::exchange(too_many_, true))
        broken(at(mark), "aliases expand to more than " + std::to_string(max_values) + " values");
    } else {
      value = found->second;
      values_ += count(value);
    }
    finish(std::move(value), YAML::NullAnchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open_.push_back({Value::list(at(mark)), anchor, {}, {}});
  }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open_.push_back({Value::map(at(mark)), anchor, {}, {}});
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    Value value;
    YAML::anchor_t anchor;
    std::optional<std::string> key;  ///< key of a map's entry whose value is incomplete
    Origin key_origin;
  };

  Origin at(const YAML::Mark& mark) const {
    return {.file = file_, .line = mark.line + 1, .column = mark.column + 1, .option = {}};
  }

  std::string path() const {
    std::string path;
    for (const Open& open : open_)
      if (open.key) path += (path.empty() ? "" : ".") + *open.key;
    return path;
  }

  void broken(const Origin& origin, std::string message) {
    broken_ = true;  // parts of the tree are missing
    problems_.push_back({origin, path(), std::move(message)});
  }

  void close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    finish(std::move(done.value), done.anchor);
  }

  void finish(Value value, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) anchors_[anchor] = value;
    ++values_;
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (Open& top = open_.back(); top.value.kind == Value::Kind::list) {
      top.value.items.push_back(std::move(value));
    } else if (!top.key) {
      start_entry(top, value);
    } else {
      // The parser gives a missing value the position of the next token, perhaps lines below; that
      // of the key is better.
      if (value.kind == Value::Kind::null) value.origin = top.key_origin;
      if (const Value::Entry* first = entry(top.value, *top.key))
        problems_.push_back({top.key_origin, path(),
                             "duplicate key, first on line " + std::to_string(first->origin.line)});
      else
        top.value.set(*top.key, std::move(value), top.key_origin);
      top.key.reset();
    }
  }

  void start_entry(Open& map, const Value& key) {
    map.key_origin = key.origin;
    if (key.kind != Value::Kind::scalar)
      broken(key.origin, "a key must be a word, not " + key.quote());
    map.key = key.kind == Value::Kind::scalar ? key.text : "?";
  }

  static const Value::Entry* entry(const Value& map, const std::string& key) {
    const auto found = std::ranges::find(map.entries, key, &Value::Entry::key);
    return found == map.entries.end() ? nullptr : &*found;
  }

  std::string file_;
  Problems& problems_;
  Value root_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Value> anchors_;
  size_t values_ = 0;
  bool too_many_ = false;
  bool broken_ = false;
};

bool plain_is_safe(const std::string& text) {
  static const std::string_view nulls[] = {"", "~", "null", "Null", "NULL"};
  if (std::ranges::find(nulls, text) != std::end(nulls)) return false;
  const auto safe = [](unsigned char c) {
    return std::isalnum(c) || std::string_view("_./+-").find(c) != std::string_view::npos;
  };
  return std::ranges::all_of(text, safe) && text != "-" && !text.starts_with("---") &&
         !text.starts_with("...");
}

std::string quoted(const std::string& text) {
  static const char hex[] = "0123456789ABCDEF";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += '\\', out += c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (byte < 0x20 || byte == 0x7F)
      out += "\\x", out += hex[byte >> 4], out += hex[byte & 15];
    else
      out += c;
  }
  return out + '"';
}

std::string inline_yaml(const Value& value) {
  if (value.kind == Value::Kind::null) return "null";
  if (value.kind == Value::Kind::scalar)
    return !value.quoted && plain_is_safe(value.text) ? value.text : quoted(value.text);
  std::string parts;
  for (const Value& item : value.items) parts += (parts.empty() ? "" : ", ") + inline_yaml(item);
  for (const auto& [key, origin, item] : value.entries)
    parts +=
        (parts.empty() ? "" : ", ") + inline_yaml(Value::scalar(key)) + ": " + inline_yaml(item);
  return value.kind == Value::Kind::list ? "[" + parts + "]" : "{" + parts + "}";
}

void block_yaml(const Value& map, const std::string& indent, std::string& out) {
  for (const auto& [key, origin, value] : map.entries) {
    out += indent + inline_yaml(Value::scalar(key)) + ":";
    if (value.kind == Value::Kind::map && !value.entries.empty()) {
      out += '\n';
      block_yaml(value, indent + "  ", out);
    } else {
      out += ' ' + inline_yaml(value) + '\n';
    }
  }
}

/// The number of edits (insert, delete, replace, swap of neighbours) from a to b.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  std::iota(d[0].begin(), d[0].end(), 0);
  for (size_t i = 1; i <= a.size(); ++i)
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] =
          std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

/// The column, from 1, of a tab that indents the line; 0 without one.
int tab_indent(const std::string& text, int line) {
  std::istringstream lines(text);
  std::string found;
  for (int i = 0; i < line; ++i)
    if (!std::getline(lines, found)) return 0;
  const size_t at = found.find_first_not_of(' ');
  return at != std::string::npos && found[at] == '\t' ? static_cast<int>(at) + 1 : 0;
}

}  // namespace

std::string Problem::line() const {
  std::string out;
  if (!origin.option.empty()) {
    out = "--" + origin.option;
    if (!path.empty() && path != origin.option) out += ": " + path;
  } else {
    out = origin.file;
    if (origin.line > 0)
      out += ":" + std::to_string(origin.line) + ":" + std::to_string(origin.column);
    if (!path.empty()) out += (out.empty() ? "" : ": ") + path;
  }
  out += (out.empty() ? "" : ": ") + message;
  for (size_t i = 0; (i = out.find_first_of("\n\r", i)) != std::string::npos; ++i) out[i] = ' ';
  return out;
}

std::vector<std::string> lines(Problems problems) {
  std::ranges::stable_sort(problems, {}, [](const Problem& p) {
    return std::tuple(!p.origin.option.empty() || p.origin.position > 0, p.origin.line,
                      p.origin.column, p.origin.position);
  });
  std::vector<std::string> out;
  for (const Problem& problem : problems) out.push_back(problem.line());
  return out;
}

Value Value::scalar(std::string text, Origin origin) {
  Value value;
  value.kind = Kind::scalar;
  value.text = std::move(text);
  value.origin = std::move(origin);
  return value;
}

Value Value::string(std::string text) {
  Value value = scalar(std::move(text));
  value.quoted = value.none() || !plain_is_safe(value.text);
  return value;
}

Value Value::list(Origin origin) {
  Value value;
  value.kind = Kind::list;
  value.origin = std::move(origin);
  return value;
}

Value Value::map(Origin origin) {
  Value value;
  value.kind = Kind::map;
  value.origin = std::move(origin);
  return value;
}

const Value* Value::find(std::string_view key) const {
  const auto found = std::ranges::find(entries, key, &Entry::key);
  return found == entries.end() ? nullptr : &found->value;
}

Value* Value::find(std::string_view key) {
  return const_cast<Value*>(std::as_const(*this).find(key));
}

void Value::set(std::string key, Value value, Origin key_origin) {
  if (Value* old = find(key))
    *old = std::move(value);
  else
    entries.push_back({std::move(key), std::move(key_origin), std::move(value)});
}

bool Value::none() const {
  if (kind != Kind::scalar || quoted) return kind == Kind::null;
  const std::string word = lower_case(text);
  return word.empty() || word == "~" || word == "none" || word == "null";
}

std::string Value::quote() const {
  if (kind == Kind::scalar)
    return "'" + (text.size() <= max_quoted ? text : text.substr(0, max_quoted) + "...") + "'";
  return kind == Kind::null ? "nothing" : kind == Kind::list ? "a list" : "a map";
}

std::optional<Value> parse_yaml(const std::string& text, const std::string& file,
                                Problems& problems) {
  const Origin whole{.file = file, .option = {}};
  const auto refuse = [&](Origin origin, std::string message) {
    problems.push_back({std::move(origin), "", std::move(message)});
    return std::nullopt;
  };
  if (const size_t bad = find_invalid_utf8(text); bad != std::string::npos) {
    const std::string_view before = std::string_view(text).substr(0, bad);
    Origin origin = whole;
    origin.line = static_cast<int>(std::ranges::count(before, '\n')) + 1;
    origin.column = static_cast<int>(bad - (before.rfind('\n') + 1)) + 1;
    return refuse(std::move(origin), "not UTF-8 text");
  }
  TreeBuilder builder(file, problems);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    Problems ignored;
    TreeBuilder second(file, ignored);
    if (parser.HandleNextDocument(second))
      return refuse(second.take().origin, "a second document; a recipe is one");
  } catch (const YAML::Exception& error) {
    Origin origin = whole;
    if (!error.mark.is_null())
      origin.line = error.mark.line + 1, origin.column = error.mark.column + 1;
    if (const int tab = tab_indent(text, origin.line); tab > 0) {
      origin.column = tab;
      return refuse(std::move(origin), "a tab indents this line; YAML takes only spaces");
    }
    return refuse(std::move(origin), "not valid YAML: " + error.msg);
  }
  if (builder.broken()) return std::nullopt;
  Value root = builder.take();
  if (root.kind == Value::Kind::null) root = Value::map();
  if (root.kind != Value::Kind::map)
    return refuse(root.origin, "a recipe is a map of keys, not " + root.quote());
  root.origin = whole;
  return root;
}

std::string to_yaml(const Value& value) {
  if (value.kind != Value::Kind::map || value.entries.empty()) return inline_yaml(value) + '\n';
  std::string out;
  block_yaml(value, "", out);
  return out;
}

std::string one_line(const Value& value) { return inline_yaml(value); }

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  const std::string* best = nullptr;
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  const auto lower = lower_case(std::string(word));
  for (const std::string& candidate : known)
    if (const size_t d = distance(lower, lower_case(candidate)); d < best_distance)
      best = &candidate, best_distance = d;
  if (best != nullptr || word.size() < 4) return best != nullptr ? *best : "";
  // The shortest name with `word` as its first or last part: "cosine" is cosine_decay.
  for (const std::string& candidate : known) {
    const auto name = lower_case(candidate);
    if (name.starts_with(lower + "_") || name.ends_with("_" + lower))
      if (best == nullptr || candidate.size() < best->size()) best = &candidate;
  }
  return best != nullptr ? *best : "";
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const std::string near = nearest(word, known);
  return near.empty() ? "" : "; did you mean '" + near + "'?";
}

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  if (auto near = did_you_mean(word, known); !near.empty()) return near;
  const std::string all = joined(known);
  return all.empty() || all.size() > max_listed ? "" : "; one of: " + all;
}

}  // namespace composer
