#include "data/beton/verify.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"

namespace composer {
namespace {

void verify_field(const BetonFile& file, int64_t row, size_t field, ReadScratch& scratch,
                  std::string& warnings) {
  switch (file.fields()[field].type) {
    case BetonType::image: {
      BetonImage stored = file.image(row, field);
      file.use(stored.bytes, scratch.file, [&](auto bytes) {
        stored.bytes = bytes;
        return decode_whole(stored, Dct::accurate, scratch.decoder, &warnings);
      });
      break;
    }
    case BetonType::json: {
      const bool sound = file.use(file.bytes(row, field), scratch.file, [&](auto text) {
        return nlohmann::json::accept(text.begin(), text.end());
      });
      if (!sound) warnings += "is no JSON\n";
      break;
    }
    case BetonType::bytes:
    case BetonType::array:
    case BetonType::tensor:
      if (file.remote() == nullptr)
        file.mapping().check_unread(file.bytes(row, field));
      else
        file.read(file.bytes(row, field), scratch.file);
      break;
    default:
      break;
  }
}

}  // namespace

SampleFinding verify_row(const BetonFile& file, int64_t row, ReadScratch& scratch) {
  SampleFinding finding;
  for (size_t field = 0; field < file.fields().size(); ++field) {
    const std::string name = "field '" + file.fields()[field].name + "': ";
    std::string warnings;
    try {
      verify_field(file, row, field, scratch, warnings);
    } catch (const RemoteError&) {
      throw;
    } catch (const RunError& error) {
      if (!finding.reason.empty()) finding.reason += "; ";
      finding.reason += name + error.what();
    }
    std::istringstream lines(warnings);
    for (std::string line; std::getline(lines, line);) finding.warnings += name + line + '\n';
  }
  return finding;
}

}  // namespace composer
