#include "base/params/alike_names.h"

#include <cstdint>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/params/utf8.h"
#include "base/text.h"

namespace composer {
namespace {

/// A mark, and letters each followed by what it becomes with that mark (Unicode's canonical
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

/// Letter and mark of what is both.
const Parts& parts_of_letters() {
  static const Parts parts = [] {
    Parts all;
    for (const auto& [mark, letters] : kMarked)
      for (size_t i = 0; i + 1 < letters.size(); i += 2) all[letters[i + 1]] = {letters[i], mark};
    return all;
  }();
  return parts;
}

/// Bytes that are no UTF-8 count each by itself.
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

/// Of a letter without marks.
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

std::vector<std::string> alike_names(const std::vector<std::string>& names) {
  std::map<std::u32string, std::vector<std::string>> groups;
  for (const auto& name : names) groups[folded(name)].push_back(name);
  std::vector<std::string> alike;
  for (const auto& [form, group] : groups)
    if (group.size() > 1) alike.push_back(joined(group));
  return alike;
}

}  // namespace composer
