#include "data/samples/list_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/error.h"
#include "base/files/byte_reader.h"
#include "base/files/mapped_file.h"
#include "base/log.h"
#include "base/params/foreign_json.h"
#include "base/params/utf8.h"
#include "base/several_threads.h"
#include "base/text.h"
#include "data/samples/class_folders.h"
#include "data/samples/target_rows.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr std::array kPathNames{"path",     "file",  "filename",   "file_name",
                                "filepath", "image", "image_path", "img"};
constexpr std::array kLabelNames{"label", "class", "target", "class_id", "label_id", "category"};

template <class Names>
bool is_one_of(const std::string& name, const Names& names) {
  return std::ranges::find(names, lower_case(name)) != names.end();
}

/// Whether the text is a number of any size, such as "1.0", "-3", "1e3"; not "nan" or "3rd".
bool is_decimal(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error != std::errc::invalid_argument && end == text.data() + text.size() &&
         std::isfinite(number);
}

struct Entry {
  std::string path, label;
  std::vector<std::vector<float>> targets{};
};
using Take = std::function<void(int64_t line, Entry entry)>;

[[noreturn]] void fail(const fs::path& file, int64_t line, const std::string& problem) {
  throw UserError(file.string() + ":" + std::to_string(line) + ": " + problem);
}

/// Throws UserError for a class name that is not UTF-8: names go to checkpoints and JSON.
void check_utf8(const fs::path& file, int64_t line, const std::string& name) {
  if (find_invalid_utf8(name) != std::string::npos)
    fail(file, line, "the class '" + shown_utf8(name) + "' is not UTF-8; a list must be UTF-8");
}

std::string_view without_byte_order_mark(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  return text;
}

/// Removes the first line from the text, and returns it without its end: LF, CR LF or CR.
std::string_view take_line(std::string_view& text) {
  const size_t end = std::min(text.find_first_of("\r\n"), text.size());
  const auto line = text.substr(0, end);
  text.remove_prefix(std::min(end + (text.substr(end, 2) == "\r\n" ? 2 : 1), text.size()));
  return line;
}

/// Throws UserError if the file is UTF-16.
void check_encoding(const fs::path& file, std::string_view text) {
  const bool marked = text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF");
  if (marked || text.substr(0, 2).find('\0') != text.npos)
    fail(file, 1, "is UTF-16; a list must be UTF-8");
}

/// Fields of CSV (RFC 4180) or, without quotes, of TSV. Lines end with LF, CR LF or CR.
class Records {
 public:
  Records(std::string_view text, char separator)
      : text_(without_byte_order_mark(text)), separator_(separator) {}

  /// False at the end. Skips empty lines. Throws the reason as a string.
  bool next(std::vector<std::string>& fields) {
    while (!text_.empty() && (text_[0] == '\n' || text_[0] == '\r')) skip(1);
    fields.clear();
    if (text_.empty()) return false;
    line_ = lines_;
    for (;;) {
      fields.push_back(separator_ == ',' && text_.starts_with('"') ? quoted() : plain());
      if (!text_.starts_with(separator_)) break;
      skip(1);
    }
    if (!text_.empty() && text_[0] != '\n' && text_[0] != '\r')
      throw std::string("text behind a closing quote");
    return true;
  }
  /// The line that the record began in.
  int64_t line() const { return line_; }

 private:
  void skip(size_t bytes) {
    for (size_t i = 0; i < bytes; ++i)
      lines_ += text_[i] == '\n' || (text_[i] == '\r' && text_.substr(i + 1, 1) != "\n");
    text_.remove_prefix(bytes);
  }

  std::string plain() {
    const char ends[] = {separator_, '\r', '\n', '\0'};
    const size_t end = std::min(text_.find_first_of(ends), text_.size());
    std::string field(text_.substr(0, end));
    skip(end);
    return field;
  }

  std::string quoted() {
    std::string field;
    skip(1);
    for (;;) {
      const size_t quote = text_.find('"');
      if (quote == std::string_view::npos) throw std::string("a quote that is not closed");
      field += text_.substr(0, quote);
      skip(quote + 1);
      if (!text_.starts_with('"')) return field;
      field += '"';
      skip(1);
    }
  }

  std::string_view text_;
  const char separator_;
  int64_t lines_ = 1, line_ = 1;
};

std::vector<std::string> all_trimmed(std::vector<std::string> names) {
  for (auto& name : names) name = trimmed(name);
  return names;
}

/// Whether a first line names columns: a field is a usual name, and no field is an image's name.
bool is_header(const std::vector<std::string>& fields) {
  const auto is_usual = [](const std::string& field) {
    return is_one_of(field, kPathNames) || is_one_of(field, kLabelNames);
  };
  const auto is_image = [](const std::string& field) {
    return file_kind_of(field) != FileKind::other;
  };
  return std::ranges::any_of(fields, is_usual) && std::ranges::none_of(fields, is_image);
}

bool is_file(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

/// The ending that makes the path, which may have none, the path of a file; empty where the path
/// needs none, nullopt where there is no such file.
std::optional<std::string> ending_of(const std::string& root, const std::string& path) {
  const std::string whole = absolute_path(root, path);
  if (is_file(whole)) return "";
  if (file_kind_of(path) != FileKind::other) return std::nullopt;
  for (const char* ending : {".jpg", ".jpeg", ".png", ".JPG", ".JPEG", ".PNG", ".webp", ".gif",
                             ".bmp", ".tif", ".tiff", ".ppm", ".pgm"})
    if (is_file(whole + ending)) return ending;
  return std::nullopt;
}

constexpr size_t kMostLookedFor =
    50;  ///< paths that are looked for before the files are taken to be elsewhere

/// Decides whether the first sample is really a header of unusual names. It is if only its path is
/// no image, or only its label is no number. It also is if path and label are words,
/// the label occurs once, no file has the path, and either a file of another sample exists, or no
/// other path is a word and all other labels occur again.
class HeaderDoubt {
 public:
  void add(const Entry& sample) {
    const bool image = file_kind_of(sample.path) != FileKind::other;
    const bool number = to_number<int32_t>(sample.label).has_value();
    const bool word = sample.path.find_first_of("./\\0123456789") == std::string::npos;
    if (samples_++ == 0) {
      first_image_ = image, first_number_ = number, first_ = sample;
      words_ = word && !sample.label.empty() && !is_decimal(sample.label);
    } else {
      images_ = images_ && image, numbers_ = numbers_ && number;
      no_words_ = no_words_ && !word;
      if (words_ && others_.size() < kMostLookedFor) others_.push_back(sample.path);
    }
    if (words_) ++labels_[sample.label];
  }
  /// root: folder of the files; nullopt: files are not looked for.
  bool holds(const std::optional<std::string>& root) const {
    if (samples_ < 2 || first_image_) return false;
    return images_ || (!first_number_ && numbers_) || (words_ && are_names(root));
  }

 private:
  bool are_names(const std::optional<std::string>& root) const {
    const auto there = [&](const std::string& path) { return ending_of(*root, path).has_value(); };
    if (labels_.at(first_.label) > 1 || (root && there(first_.path))) return false;
    if (root && std::ranges::any_of(others_, there)) return true;
    return no_words_ && std::ranges::all_of(labels_, [&](const auto& label) {
             return label.second > 1 || label.first == first_.label;
           });
  }

  int64_t samples_ = 0;
  bool first_image_ = false, first_number_ = false;
  bool images_ = true, numbers_ = true, no_words_ = true;  ///< hold for all other samples
  bool words_ = false;  ///< path and label of the first sample are words
  Entry first_;
  std::vector<std::string> others_;  ///< paths of the next samples
  std::unordered_map<std::string, int64_t> labels_;
};

/// Indices of the columns to read.
struct ColumnIndices {
  size_t path;
  std::optional<size_t> label;    ///< nullopt: there are no labels
  std::vector<size_t> targets{};  ///< read in place of the label
};

/// The index of the first column with the name, or for "auto" with a usual name.
template <class Names>
std::optional<size_t> column_of(const std::string& wanted, const Names& usual,
                                const std::vector<std::string>& fields) {
  for (size_t i = 0; i < fields.size(); ++i)
    if (wanted == "auto" ? is_one_of(fields[i], usual) : fields[i] == wanted) return i;
  return std::nullopt;
}

/// The columns of a header; nullopt where the fields are no header.
std::optional<ColumnIndices> columns_in(const std::vector<std::string>& fields,
                                        const ListColumns& columns) {
  const auto path = column_of(columns.path, kPathNames, fields);
  const auto label = column_of(columns.label, kLabelNames, fields);
  const bool lacks = !label && columns.label_may_lack && columns.label == "auto";
  if (!path || (!label && !lacks) || path == label) return std::nullopt;
  return ColumnIndices{*path, label};
}

/// The end of a message about a first line of one field, which another character separates.
std::string separator_hint(const std::vector<std::string>& fields) {
  if (fields.size() != 1 || fields.front().find_first_of(";\t,|") == std::string::npos) return "";
  return "; fields are separated by commas in a .csv file, by tabs in a .tsv file";
}

constexpr const char* kPaths = "of paths (path, file, ...)";

/// wanted: the column's name, or with a `key`, which would name the column, a description.
[[noreturn]] void fail_without_column(const fs::path& file, const std::vector<std::string>& fields,
                                      const std::string& wanted, const std::string& key = {}) {
  fail(file, 1,
       "no column " + wanted + "; the first line names the columns: " + first_few(fields) +
           (key.empty() ? nearest_name(wanted, fields)
                        : "; " + key + " says which one it is; above a sample, write path,label") +
           separator_hint(fields));
}

[[noreturn]] void fail_without_columns(const fs::path& file, const std::vector<std::string>& fields,
                                       const ListColumns& columns) {
  for (const auto& wanted : {columns.path, columns.label})
    if (wanted != "auto" && std::ranges::find(fields, wanted) == fields.end())
      fail_without_column(file, fields, wanted);
  if (!column_of(columns.path, kPathNames, fields))
    fail_without_column(file, fields, kPaths, "path");
  fail_without_column(file, fields, "of labels (label, class, ...)", "label");
}

/// The columns of a header that has to have columns of numbers.
ColumnIndices target_columns(const fs::path& file, const std::vector<std::string>& fields,
                             const ListColumns& columns) {
  const auto index_of = [&](const std::string& name) {
    const auto found = column_of(name, kPathNames, fields);
    if (!found && name == "auto") fail_without_column(file, fields, kPaths, "path");
    if (!found) fail_without_column(file, fields, name);
    return *found;
  };
  ColumnIndices indices{index_of(columns.path), {}};
  for (const auto& target : columns.targets) indices.targets.push_back(index_of(target));
  return indices;
}

/// The numbers of a field or of a JSON value. Errors name the column.
template <class Value>
std::vector<float> target_of(const fs::path& file, int64_t line, const std::string& column,
                             const Value& value) {
  try {
    return numbers_in(value);
  } catch (const FormatError& problem) {
    fail(file, line, "column " + column + ": " + problem.what());
  }
}

void read_columns(const fs::path& file, std::string_view text, char separator, ListColumns columns,
                  const std::optional<std::string>& root, const Take& take) {
  for (auto* const name : {&columns.path, &columns.label}) *name = trimmed(*name);
  for (auto& name : columns.targets) name = trimmed(name);
  Records records(text, separator);
  std::vector<std::string> fields, header;
  std::optional<ColumnIndices> indices;
  std::optional<HeaderDoubt> doubt;  // set where the first line is read as a sample
  size_t count = 0;
  const auto next = [&] {
    try {
      return records.next(fields);
    } catch (const std::string& problem) {
      fail(file, records.line(), problem);
    }
  };
  for (bool first = true; next(); first = false) {
    if (first) count = fields.size(), header = all_trimmed(fields);
    if (first && !columns.targets.empty()) {
      indices = target_columns(file, header, columns);
      continue;
    }
    if (first) {
      indices = columns_in(header, columns);
      if (indices) continue;
      if (columns.path != "auto" || columns.label != "auto" || is_header(header))
        fail_without_columns(file, header, columns);
      const bool paths_alone = count == 1 && columns.label_may_lack;
      if (count != 2 && !paths_alone)
        fail(file, 1,
             "expected two columns, path and label, or a first line that names them; "
             "it has " +
                 first_few(fields) + separator_hint(fields) + "; targets names columns of numbers");
      indices = ColumnIndices{0, paths_alone ? std::nullopt : std::optional<size_t>(1)};
      doubt.emplace();
    }
    if (fields.size() != count)
      fail(file, records.line(),
           "has " + std::to_string(fields.size()) + " fields; the first line has " +
               std::to_string(count));
    Entry entry;
    for (size_t i = 0; i < indices->targets.size(); ++i)
      entry.targets.push_back(target_of(file, records.line(), columns.targets[i],
                                        std::string_view(fields[indices->targets[i]])));
    if (indices->label) entry.label = trimmed(fields[*indices->label]);
    entry.path = trimmed(fields[indices->path]);
    if (doubt) doubt->add(entry);
    take(records.line(), std::move(entry));
  }
  if (doubt && doubt->holds(root))
    fail(file, 1,
         "'" + joined(header) +
             "' is unlike all lines below it: of a header, path and label say which columns are "
             "meant; above a sample, write path,label");
}

/// The value of the wanted key, or for "auto" of a usual key; null if the object has no such key.
template <class Names>
const nlohmann::json* value_of(const nlohmann::json& object, const std::string& wanted,
                               const Names& usual) {
  if (wanted != "auto") return object.contains(wanted) ? &object[wanted] : nullptr;
  for (const char* name : usual)
    if (object.contains(name)) return &object[name];
  return nullptr;
}

/// what: a description of the wanted value.
[[noreturn]] void fail_without_value(const fs::path& file, int64_t line,
                                     const nlohmann::json& object, const std::string& wanted,
                                     const char* what) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  fail(file, line,
       "has no " + wanted + ", " + what +
           (object.contains(wanted) ? "" : nearest_name(wanted, keys)));
}

std::string label_text(const fs::path& file, int64_t line, const nlohmann::json& object,
                       const std::string& wanted) {
  const auto* label = value_of(object, wanted, kLabelNames);
  if (label == nullptr)
    fail_without_value(file, line, object, wanted == "auto" ? "label" : wanted,
                       "a whole number or a text");
  if (!label->is_string() && !label->is_number_integer())
    fail(file, line,
         "has the label " + shown_value(*label) + "; it must be a whole number or a text");
  return label->is_string() ? trimmed(label->get<std::string>()) : label->dump();
}

void read_json_lines(const fs::path& file, std::string_view text, const ListColumns& columns,
                     const Take& take) {
  for (int64_t line = 1; !text.empty(); ++line) {
    const auto one = take_line(text);
    if (one.find_first_not_of(" \t") == std::string_view::npos) continue;
    if (find_invalid_utf8(one) != one.npos) fail(file, line, "is not UTF-8; a list must be UTF-8");
    const auto object = nlohmann::json::parse(one, nullptr, false);
    if (!object.is_object()) fail(file, line, "is no JSON object");
    const auto* path = value_of(object, columns.path, kPathNames);
    if (path == nullptr || !path->is_string())
      fail_without_value(file, line, object, columns.path == "auto" ? "path" : columns.path,
                         "a text");
    Entry entry{path->get<std::string>(), {}};
    for (const auto& target : columns.targets) {
      if (!object.contains(target)) fail_without_value(file, line, object, target, "a number");
      entry.targets.push_back(target_of(file, line, target, object[target]));
    }
    const bool lacks =
        columns.label_may_lack && value_of(object, columns.label, kLabelNames) == nullptr;
    if (columns.targets.empty() && !lacks)
      entry.label = label_text(file, line, object, columns.label);
    take(line, std::move(entry));
  }
}

/// root: folder of the files; nullopt: files are not looked for.
void read_list(const fs::path& file, const ListColumns& columns,
               const std::optional<std::string>& root, const Take& take) {
  const MappedFile mapping(file);
  mapping.use_all([&](std::span<const uint8_t> bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    check_encoding(file, text);
    const std::string ending = lower_case(file.extension().string());
    if (ending == ".jsonl")
      read_json_lines(file, text, columns, take);
    else
      read_columns(file, text, ending == ".tsv" ? '\t' : ',', columns, root, take);
    return true;
  });
}

template <class Value>
bool holds_numbers(const Value& value) {
  try {
    return !numbers_in(value).empty();
  } catch (const FormatError&) {
    return false;
  }
}

struct FirstColumn {
  std::string name;
  bool has_numbers;  ///< whether the first sample has numbers there
};

/// The columns of the first record or object; empty where the list cannot be read.
std::vector<FirstColumn> first_columns(const fs::path& file, std::string_view text) {
  const std::string ending = lower_case(file.extension().string());
  std::vector<FirstColumn> columns;
  if (ending == ".jsonl") {
    const auto object = nlohmann::json::parse(take_line(text), nullptr, false);
    if (object.is_object())
      for (const auto& [key, value] : object.items())
        columns.push_back({key, holds_numbers(value)});
    return columns;
  }
  std::vector<std::string> names, fields;
  try {
    Records records(text, ending == ".tsv" ? '\t' : ',');
    records.next(names), records.next(fields);
    names = all_trimmed(std::move(names));
  } catch (const std::string&) {  // reading the list reports the error
    return {};
  }
  fields.resize(names.size());
  for (size_t i = 0; i < names.size(); ++i)
    columns.push_back({names[i], holds_numbers(std::string_view(fields[i]))});
  return columns;
}

/// The different labels of a list, in the order of their first lines.
class Labels {
 public:
  /// Adds the label where it is new, and returns its index.
  int32_t index_of(const std::string& label, int64_t line) {
    const auto [found, is_new] = indices_.try_emplace(label, static_cast<int32_t>(texts_.size()));
    if (is_new) texts_.push_back(label), lines_.push_back(line);
    return found->second;
  }

  bool are_numbers() const {
    return std::ranges::all_of(
        texts_, [](const auto& text) { return to_number<int32_t>(text).has_value(); });
  }
  std::vector<std::string> sorted() const {
    auto names = texts_;
    std::ranges::sort(names);
    return names;
  }

  /// Checks labels that are names: throws UserError for a number that is no class, such as 1.0, and
  /// warns of whole numbers among the names.
  void check_names(const fs::path& file) const {
    const auto is_class = [](const auto& text) { return to_number<int32_t>(text).has_value(); };
    for (size_t i = 0; i < texts_.size(); ++i)
      if (!is_class(texts_[i]) && is_decimal(texts_[i]))
        fail(file, lines_[i],
             "has the label '" + texts_[i] +
                 "'; a class is a whole number from 0 to 2147483647, or a name; where this is one, "
                 "classes must name them all");
    if (std::ranges::none_of(texts_, is_class)) return;
    const auto name = std::ranges::find_if_not(texts_, is_class) - texts_.begin();
    log::warn(file.string() + ":" + std::to_string(lines_[static_cast<size_t>(name)]) + ": '" +
              texts_[static_cast<size_t>(name)] +
              "' is no number: all labels are taken for names, numbered in their alphabet's order");
  }

  /// The class of each label, where labels are the numbers of classes.
  std::vector<int32_t> numbers(const fs::path& file) const {
    std::vector<int32_t> classes;
    for (size_t i = 0; i < texts_.size(); ++i) {
      const auto number = to_number<int32_t>(texts_[i]);
      if (!number)
        fail(file, lines_[i],
             "'" + texts_[i] + "' is no number; the labels of the list that classes names are");
      if (*number < 0)
        fail(file, lines_[i], "has the class " + texts_[i] + "; classes are numbered from 0");
      classes.push_back(*number);
    }
    return classes;
  }

  /// The class of each label: the index of its name among `names`.
  std::vector<int32_t> looked_up(const fs::path& file,
                                 const std::vector<std::string>& names) const {
    auto classes = indices_of(texts_, names);
    if (const auto none = std::ranges::find(classes, -1); none != classes.end()) {
      const auto i = static_cast<size_t>(none - classes.begin());
      fail(file, lines_[i],
           "'" + texts_[i] + "' is none of the " + std::to_string(names.size()) + " classes");
    }
    return classes;
  }

 private:
  std::unordered_map<std::string, int32_t> indices_;
  std::vector<std::string> texts_;
  std::vector<int64_t> lines_;
};

/// A sample of a list.
struct Listed {
  std::string path;
  int32_t label;  ///< index among the list's labels
  int64_t line;
};

/// Adds an ending to the paths that have no image's ending: the ending of the first such file that
/// is found, which is empty where the file exists without one.
void add_ending(const std::string& root, std::vector<Listed>& entries) {
  const auto has_none = [](const Listed& entry) {
    return file_kind_of(entry.path) == FileKind::other;
  };
  std::optional<std::string> ending;
  for (size_t i = 0, looked = 0; i < entries.size() && looked < kMostLookedFor && !ending; ++i)
    if (has_none(entries[i])) ++looked, ending = ending_of(root, entries[i].path);
  if (!ending || ending->empty()) return;
  for (auto& entry : entries)
    if (has_none(entry)) entry.path += *ending;
}

/// The end of a message about a list whose files are elsewhere. path: that of the first file.
std::string images_dir_hint(const fs::path& list, const std::string& path) {
  const fs::path folder = list.parent_path();
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string root = (entry->path() / "").string();
    std::error_code none;
    if (path.starts_with('/') || !entry->is_directory(none)) continue;
    if (ending_of(root, path)) return "; did you mean images_dir: " + entry->path().string() + "?";
  }
  return "; images_dir names the folder that they begin in";
}

/// Throws UserError. missing: indices in `entries`, in order.
[[noreturn]] void fail_without_files(const fs::path& list, const std::string& root,
                                     const std::vector<Listed>& entries,
                                     const std::vector<size_t>& missing) {
  const bool all = missing.size() == entries.size();
  const size_t shown = std::min<size_t>(missing.size(), all ? 10 : 100);
  std::vector<std::string> problems;
  for (size_t i = 0; i < shown; ++i)
    problems.push_back(list.string() + ":" + std::to_string(entries[missing[i]].line) +
                       ": there is no file '" + absolute_path(root, entries[missing[i]].path) +
                       "'");
  if (all)
    problems.push_back(list.string() + ": none of its files is there, " +
                       std::to_string(missing.size()) + " in all" +
                       images_dir_hint(list, entries.front().path));
  else if (missing.size() > shown)
    problems.push_back(list.string() + ": " + std::to_string(missing.size() - shown) +
                       " more of its files are not there; composer data verify names all");
  throw UserError(problems);
}

/// Looks for the files of the entries, as ListedFiles describes.
void look_for(const fs::path& list, const ListedFiles& files, std::vector<Listed>& entries,
              SampleTableWriter& writer) {
  add_ending(files.root, entries);
  std::unordered_set<std::string> folders;
  for (const auto& entry : entries) folders.insert(entry.path.substr(0, entry.path.rfind('/') + 1));
  for (const auto& folder : folders)
    writer.watch(folder, settled_stamp_of(absolute_path(files.root, folder)));
  constexpr uint64_t at_once = 64;
  std::vector<char> there(entries.size());
  in_several_threads((entries.size() + at_once - 1) / at_once, [&](uint64_t batch) {
    const auto end = std::min<uint64_t>(entries.size(), (batch + 1) * at_once);
    for (uint64_t i = batch * at_once; i < end; ++i)
      there[i] = is_file(absolute_path(files.root, entries[i].path));
  });
  std::vector<size_t> missing;
  for (size_t i = 0; i < entries.size(); ++i)
    if (there[i] == 0) missing.push_back(i);
  if (missing.empty()) return;
  if (files.required) fail_without_files(list, files.root, entries, missing);
  writer.watch("", PathStamp{});  // which equals no stamp
}

}  // namespace

bool is_list_file(const fs::path& file) {
  const std::string ending = lower_case(file.extension().string());
  return ending == ".csv" || ending == ".tsv" || ending == ".jsonl";
}

std::vector<std::string> listed_columns(const fs::path& file, const ListColumns& columns) {
  const MappedFile mapping(file);
  return mapping.use_all([&](std::span<const uint8_t> bytes) {
    const auto all =
        first_columns(file, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    std::vector<std::string> names, numbers;
    for (const auto& column : all) names.push_back(column.name);
    const auto path = column_of(columns.path, kPathNames, names);
    if (!path) return numbers;
    for (size_t i = 0; i < all.size(); ++i)
      if (i != *path && all[i].has_numbers) numbers.push_back(all[i].name);
    return numbers;
  });
}

std::vector<std::string> listed_classes(const fs::path& file, const ListColumns& columns) {
  Labels labels;
  if (is_list_file(file)) {
    read_list(file, columns, std::nullopt, [&](int64_t line, const Entry& entry) {
      check_utf8(file, line, entry.label);
      labels.index_of(entry.label, line);
    });
    auto names = labels.sorted();
    if (names.empty()) throw UserError(file.string() + ": names no classes");
    if (labels.are_numbers()) names.clear();
    return names;
  }
  const MappedFile mapping(file);
  const auto names = mapping.use_all([&](std::span<const uint8_t> bytes) {
    std::vector<std::string> all;
    auto text =
        without_byte_order_mark({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    check_encoding(file, text);
    for (int64_t line = 1; !text.empty(); ++line) {
      const auto one = trimmed(take_line(text));
      if (one.empty()) continue;
      check_utf8(file, line, one);
      if (labels.index_of(one, line) != static_cast<int32_t>(all.size()))
        fail(file, line, "names the class '" + one + "' again");
      all.push_back(one);
    }
    return all;
  });
  if (names.empty()) throw UserError(file.string() + ": names no classes");
  return names;
}

std::vector<ListedImage> listed_images(const fs::path& file) {
  ListColumns columns;
  columns.label_may_lack = true;
  std::vector<ListedImage> files;
  read_list(file, columns, (file.parent_path() / "").string(), [&](int64_t line, Entry entry) {
    if (entry.path.empty()) fail(file, line, "has no path");
    files.push_back({(file.parent_path() / entry.path).lexically_normal().string(),
                     std::move(entry.label), line});
  });
  if (files.empty()) throw UserError(file.string() + ": lists no images");
  return files;
}

SampleTableWriter list_table(const fs::path& file, const ListColumns& columns,
                             const std::optional<std::vector<std::string>>& classes,
                             const std::optional<ListedFiles>& files) {
  std::vector<Listed> entries;
  Labels labels;
  TargetRows targets(columns.targets);
  const fs::path root = files ? fs::path(files->root) : file.parent_path();
  const auto looked_in = files ? std::optional(files->root) : std::nullopt;
  read_list(file, columns, looked_in, [&](int64_t line, Entry entry) {
    if (entry.path.empty()) fail(file, line, "has no path");
    if (entry.path.find('\0') != std::string::npos) fail(file, line, "has a 0 in its path");
    if (entry.path.ends_with('/')) fail(file, line, "'" + entry.path + "' is no file");
    if (std::error_code error;
        !slash_hint(entry.path).empty() && !fs::exists(root / entry.path, error))
      fail(file, line, "there is no '" + entry.path + "'" + slash_hint(entry.path));
    if (!columns.targets.empty()) {
      try {
        targets.add(entry.targets);
      } catch (const FormatError& problem) {
        fail(file, line, std::string("has ") + problem.what());
      }
      return entries.push_back({std::move(entry.path), 0, line});
    }
    if (entry.label.empty()) fail(file, line, "has no label");
    check_utf8(file, line, entry.label);
    entries.push_back({std::move(entry.path), labels.index_of(entry.label, line), line});
  });
  if (entries.empty()) throw UserError(file.string() + ": lists no images");
  SampleTableWriter writer;
  if (files) look_for(file, *files, entries, writer);
  if (!columns.targets.empty()) {
    for (const auto& entry : entries) writer.add_file(entry.path, 0);
    writer.set_values(targets);
    return writer;
  }
  const bool are_numbers = classes ? classes->empty() : labels.are_numbers();
  std::vector<std::string> names;
  if (!are_numbers && !classes) labels.check_names(file);
  if (!are_numbers) names = classes ? *classes : labels.sorted();
  const auto numbers = are_numbers ? labels.numbers(file) : labels.looked_up(file, names);
  for (const auto& name : names) writer.add_class(name);
  for (const auto& entry : entries)
    writer.add_file(entry.path, numbers[static_cast<size_t>(entry.label)]);
  return writer;
}

}  // namespace composer
