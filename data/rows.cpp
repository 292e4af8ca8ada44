#include "data/rows.h"

#include <set>

#include "composer/logging/log.h"
#include "composer/text.h"
#include "data/order.h"

namespace composer {
namespace {

/// For messages: the class's name where there is one, else its number.
std::string class_text(int64_t label, const std::vector<std::string>& names) {
  const bool named = label >= 0 && label < std::ssize(names);
  return named ? names[static_cast<size_t>(label)] : std::to_string(label);
}

void warn_of_classes_left_out(const Source& source, const std::vector<int64_t>& rows,
                              const std::vector<std::string>& names) {
  std::set<int64_t> present, all;
  for (const int64_t row : rows) present.insert(source.label(row));
  for (int64_t row = 0; row < source.size(); ++row) all.insert(source.label(row));
  std::vector<std::string> missing;
  for (const int64_t label : all)
    if (!present.contains(label)) missing.push_back(class_text(label, names));
  if (missing.empty()) return;
  log::warn("rows: training has samples of only " + std::to_string(present.size()) + " of " +
            std::to_string(all.size()) + " classes; missing: " + first_few(std::move(missing)) +
            " (the samples of a folder come class by class)");
}

}  // namespace

std::vector<int64_t> chosen_rows(const Source& source, const std::string& text, bool training,
                                 const LoaderOptions& options) {
  const auto rows = parse_rows(text, source.size(), "rows");
  if (training && !rows.empty()) warn_of_classes_left_out(source, rows, options.class_names);
  return rows;
}

}  // namespace composer
