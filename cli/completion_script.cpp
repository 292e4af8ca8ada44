// The subcommand completion: scripts for shells, and the candidates that the scripts ask for.
#include <cctype>
#include <iostream>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/completion.h"

namespace composer {
namespace {

constexpr const char* bash_script =
    R"(# Completion of @NAME@ for bash: source <(@NAME@ completion bash)
_@ID@_completion() {
  local answer line kind candidates=()
  answer=$("${COMP_WORDS[0]/#\~/$HOME}" completion words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null) || return
  while IFS= read -r line; do
    if [[ -z $kind ]]; then kind=$line; else candidates+=("${line%%$'\t'*}"); fi
  done <<< "$answer"
  COMPREPLY=("${candidates[@]}")
  if [[ $kind == files ]]; then
    compopt -o filenames 2>/dev/null
    line=${COMP_WORDS[COMP_CWORD]}
    [[ $line != = ]] || line=
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$line")
  fi
}
complete -F _@ID@_completion @NAME@
)";

constexpr const char* zsh_script = R"(#compdef @NAME@
# Completion of @NAME@ for zsh: source <(@NAME@ completion zsh), after compinit.
_@ID@_completion() {
  local -a answer described options
  local line
  answer=("${(@f)$("${words[1]/#\~/$HOME}" completion words "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  for line in "${(@)answer[2,-1]}"; do
    described+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done
  [[ ${described[1]} == -* ]] && options=(-o)
  (( $#described )) && _describe $options '@NAME@' described
  [[ ${answer[1]} == files ]] && _files
}
compdef _@ID@_completion @NAME@
)";

constexpr const char* fish_script =
    R"(# Completion of @NAME@ for fish: @NAME@ completion fish | source
function __@ID@_completion
  set -l line (commandline -opc) (commandline -ct)
  set -l answer ($line[1] completion words $line[2..-1] 2>/dev/null)
  test "$answer[1]" = files; and __fish_complete_path (commandline -ct)
  test (count $answer) -gt 1; and printf '%s\n' $answer[2..-1]
end
complete -c @NAME@ -f -a '(__@ID@_completion)'
)";

const std::map<std::string, const char*> scripts{
    {"bash", bash_script}, {"fish", fish_script}, {"zsh", zsh_script}};

/// The completion script of this program, under its present name, for a shell of `scripts`. The
/// script calls `completion words`.
std::string completion_script(const std::string& shell) {
  const std::string name = std::filesystem::read_symlink("/proc/self/exe").filename();
  std::string id = name;
  for (char& c : id)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  std::string script = scripts.at(shell);
  for (const auto& [mark, text] :
       {std::pair<std::string, std::string>{"@NAME@", name}, {"@ID@", id}})
    for (size_t at = 0; (at = script.find(mark, at)) != std::string::npos; at += text.size())
      script.replace(at, mark.size(), text);
  return script;
}

/// Prints the kind of the candidates, then a line for each: word, tab, documentation.
void print_completion(const Words& line) {
  const auto completion = complete(line);
  std::cout << (completion.files ? "files" : "words") << '\n';
  for (const auto& [word, doc] : completion.candidates) std::cout << word << '\t' << doc << '\n';
}

}  // namespace

int completion_command(const Words& words) {
  if (!words.empty() && words[0] == "words") {
    print_completion(Words(words.begin() + 1, words.end()));
    return 0;
  }
  CLI::App app(
      "Prints a script by which a shell completes the command line: subcommands, options, keys of "
      "recipes,\nnames of components. The program itself is asked for them, a program of one's own "
      "for its components too.\n"
      "  bash: source <(composer completion bash)         in ~/.bashrc\n"
      "  zsh:  source <(composer completion zsh)          in ~/.zshrc, after compinit\n"
      "  fish: composer completion fish | source          in ~/.config/fish/config.fish",
      "completion");
  std::string shell;
  app.add_option("shell", shell, "that completes")->required()->check(word_of(names_in(scripts)));
  if (!parse(app, words)) return 0;
  std::cout << completion_script(shell);
  return 0;
}

}  // namespace composer
