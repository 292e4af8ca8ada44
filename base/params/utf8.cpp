#include "base/params/utf8.h"

#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/text.h"

namespace composer {
namespace {

/// The number of bytes of the first character of `text`; 0 when it is invalid.
size_t character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t size = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (size == 0 || text.size() < size) return 0;
  for (size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  const bool overlong = (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xF0 && byte(1) < 0x90);
  const bool surrogate = lead == 0xED && byte(1) >= 0xA0;
  const bool too_large = lead == 0xF4 && byte(1) >= 0x90;
  return overlong || surrogate || too_large ? 0 : size;
}

/// A combining mark, and pairs of a letter and the letter with the mark (Unicode's canonical
/// compositions of Latin, Greek, Cyrillic and kana).
constexpr std::pair<char32_t, std::u32string_view> kMarked[] = {
    {0x0300, U"AÀEÈIÌOÒUÙaàeèiìoòuùÜǛüǜNǸnǹЕЀИЍеѐиѝĒḔēḕŌṐōṑWẀwẁÂẦâầĂẰăằÊỀêềÔỒôồƠỜơờƯỪưừYỲyỳ"},
    {0x0301,
     U"AÁEÉIÍOÓUÚYÝaáeéiíoóuúyýCĆcćLĹlĺNŃnńRŔrŕSŚsśZŹzźÜǗüǘGǴgǵÅǺåǻÆǼæǽØǾøǿΑΆΕΈΗΉΙΊΟΌΥΎΩΏϊΐαάεέηήιί"
     U"ϋΰοόυύωώГЃКЌгѓкќÇḈçḉĒḖēḗÏḮïḯKḰkḱMḾmḿÕṌõṍŌṒōṓPṔpṕŨṸũṹWẂwẃÂẤâấĂẮăắÊẾêếÔỐôốƠỚơớƯỨưứ"},
    {0x0302, U"AÂEÊIÎOÔUÛaâeêiîoôuûCĈcĉGĜgĝHĤhĥJĴjĵSŜsŝWŴwŵYŶyŷZẐzẑẠẬạậẸỆẹệỌỘọộ"},
    {0x0303, U"AÃNÑOÕaãnñoõIĨiĩUŨuũVṼvṽÂẪâẫĂẴăẵEẼeẽÊỄêễÔỖôỗƠỠơỡƯỮưữYỸyỹ"},
    {0x0304, U"AĀaāEĒeēIĪiīOŌoōUŪuūÜǕüǖÄǞäǟȦǠȧǡÆǢæǣǪǬǫǭGḠgḡḶḸḷḹṚṜṛṝ"},
    {0x0306, U"AĂaăEĔeĕGĞgğIĬiĭOŎoŏUŬuŭУЎИЙийуўȨḜȩḝẠẶạặ"},
    {0x0307,
     U"CĊcċEĖeėGĠgġIİZŻzżBḂbḃDḊdḋFḞfḟHḢhḣMṀmṁNṄnṅPṖpṗRṘrṙSṠsṡŚṤśṥŠṦšṧṢṨṣṩTṪtṫWẆwẇXẊxẋYẎyẏſẛ"},
    {0x0308, U"AÄEËIÏOÖUÜaäeëiïoöuüyÿYŸΙΪΥΫιϊυϋЕЁІЇеёіїHḦhḧÕṎõṏŪṺūṻWẄwẅXẌxẍtẗ"},
    {0x0309, U"AẢaảÂẨâẩĂẲăẳEẺeẻÊỂêểIỈiỉOỎoỏÔỔôổƠỞơởUỦuủƯỬưửYỶyỷ"},
    {0x030A, U"AÅaåUŮuůwẘyẙ"},
    {0x030B, U"OŐoőUŰuű"},
    {0x030C, U"CČcčDĎdďEĚeěLĽlľNŇnňRŘrřSŠsšTŤtťZŽzžAǍaǎIǏiǐOǑoǒUǓuǔÜǙüǚGǦgǧKǨkǩƷǮʒǯjǰ"},
    {0x030F, U"AȀaȁEȄeȅIȈiȉOȌoȍRȐrȑUȔuȕ"},
    {0x0311, U"AȂaȃEȆeȇIȊiȋOȎoȏRȒrȓUȖuȗ"},
    {0x0323,
     U"BḄbḅDḌdḍHḤhḥKḲkḳLḶlḷMṂmṃNṆnṇRṚrṛSṢsṣTṬtṭVṾvṿWẈwẉZẒzẓAẠaạEẸeẹIỊiịOỌoọƠỢơợUỤuụƯỰưựYỴyỵ"},
    {0x0324, U"UṲuṳ"},
    {0x0325, U"AḀaḁ"},
    {0x0326, U"SȘsșTȚtț"},
    {0x0327, U"CÇcçGĢgģKĶkķLĻlļNŅnņRŖrŗSŞsşTŢtţDḐdḑHḨhḩ"},
    {0x0328, U"AĄaąEĘeęIĮiįUŲuųOǪoǫ"},
    {0x032D, U"DḒdḓEḘeḙLḼlḽNṊnṋTṰtṱUṶuṷ"},
    {0x032E, U"HḪhḫ"},
    {0x0330, U"EḚeḛIḬiḭUṴuṵ"},
    {0x0331, U"BḆbḇDḎdḏKḴkḵLḺlḻNṈnṉRṞrṟTṮtṯZẔzẕhẖ"},
    {0x3099,
     U"かがきぎくぐけげこごさざしじすずせぜそぞただちぢつづてでとどはばひびふぶへべほぼうゔゝゞカガ"
     U"キギクグケゲコゴサザシジスズセゼソゾタダチヂツヅテデトドハバヒビフブヘベホボウヴワヷヰヸヱヹ"
     U"ヲヺヽヾ"},
    {0x309A, U"はぱひぴふぷへぺほぽハパヒピフプヘペホポ"},
};

using Parts = std::unordered_map<char32_t, std::pair<char32_t, char32_t>>;

/// The letter and the mark of each composed letter.
const Parts& parts_of_letters() {
  static const Parts parts = [] {
    Parts all;
    for (const auto& [mark, letters] : kMarked)
      for (size_t i = 0; i + 1 < letters.size(); i += 2) all[letters[i + 1]] = {letters[i], mark};
    return all;
  }();
  return parts;
}

/// If a text is not UTF-8, each byte of it counts as a code point.
std::u32string code_points(std::string_view text) {
  const bool utf8 = find_invalid_utf8(text) == text.npos;
  std::u32string all;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (!utf8 || byte < 0x80)
      all.push_back(utf8 ? byte : 0x110000u + byte);
    else if (byte < 0xC0)
      all.back() = all.back() << 6 | (byte & 0x3Fu);
    else
      all.push_back(byte < 0xE0 ? byte & 0x1Fu : byte < 0xF0 ? byte & 0xFu : byte & 0x7u);
  }
  return all;
}

/// The lower-case letter. c: a letter without marks.
char32_t small_letter_of(char32_t c) {
  const auto in = [c](char32_t first, char32_t last) { return c >= first && c <= last; };
  if (in('A', 'Z') || (in(0xC0, 0xDE) && c != 0xD7) || in(0x391, 0x3A9) || in(0x410, 0x42F))
    return c + 0x20;
  if (in(0x400, 0x40F)) return c + 0x50;
  if (in(0x100, 0x137) || in(0x14A, 0x177)) return c | 1;
  return in(0x139, 0x148) ? c + c % 2 : c;
}

void add_folded(char32_t c, std::u32string& folded) {
  constexpr char32_t kSyllables = 0xAC00, kFinals = 28, kVowels = 21, kCount = 11172;
  if (c >= kSyllables && c < kSyllables + kCount) {  // Hangul: consonant, vowel, final consonant
    const char32_t i = c - kSyllables;
    folded += {0x1100 + i / (kVowels * kFinals), 0x1161 + i / kFinals % kVowels};
    if (i % kFinals != 0) folded += 0x11A7 + i % kFinals;
    return;
  }
  const auto found = parts_of_letters().find(c);
  if (found == parts_of_letters().end()) {
    folded += small_letter_of(c);
    return;
  }
  add_folded(found->second.first, folded);
  folded += found->second.second;
}

std::u32string folded(const std::string& name) {
  std::u32string all;
  for (const char32_t c : code_points(trimmed(name))) add_folded(c, all);
  return all;
}

}  // namespace

size_t find_invalid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t size = character(text.substr(at));
    if (size == 0) return at;
    at += size;
  }
  return std::string_view::npos;
}

std::string shown_utf8(std::string text) {
  for (size_t bad; (bad = find_invalid_utf8(text)) != std::string::npos;) text[bad] = '?';
  return text;
}

std::vector<std::string> alike_names(const std::vector<std::string>& names) {
  std::map<std::u32string, std::vector<std::string>> groups;
  for (const auto& name : names) groups[folded(name)].push_back(name);
  std::vector<std::string> alike;
  for (const auto& [form, group] : groups)
    if (group.size() > 1) alike.push_back(joined(group));
  return alike;
}

}  // namespace composer
