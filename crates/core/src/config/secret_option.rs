//! Recognises words of a command line that are secret because of the words before them: `--token
//! abc`, `-u me:abc`, `password = abc`.

use super::secret::HIDDEN;
use super::secret_name::is_secret;
use super::secret_value::is_plain;

/// The words before the current one, as far as they determine its meaning.
#[derive(Default)]
pub(super) struct PrecedingWords<'a> {
    program: &'a str,
    word: &'a str,
    /// The first word of `IDENTIFIED BY`.
    second: &'a str,
}

impl<'a> PrecedingWords<'a> {
    /// Masks the next word according to the words before it, or else with `plainly`.
    pub(super) fn show(&mut self, word: &'a str, plainly: impl FnOnce(&str) -> String) -> String {
        let shown = self.login(word).or_else(|| self.attached(word));
        let shown = shown.or_else(|| self.names(word).then(|| HIDDEN.to_owned()));
        let base = word.rsplit('/').next().unwrap_or(word);
        if PASSWORD_OPTIONS.iter().any(|(program, _)| *program == base) {
            self.program = base;
        }
        (self.second, self.word) = (self.word, word);
        shown.unwrap_or_else(|| plainly(word))
    }

    /// Whether the next word is a secret value.
    fn names(&self, word: &str) -> bool {
        let option = self.word.starts_with('-') && !self.word.contains(['=', ' ', ':']);
        let known = PASSWORD_OPTIONS.contains(&(self.program, self.word)) && !are_ports(word);
        let by_name = option && is_secret(self.word, word) && !word.starts_with('-');
        let scheme = self.word.trim_start_matches(['"', '\'']);
        let bearer = scheme.eq_ignore_ascii_case("bearer")
            || (scheme.eq_ignore_ascii_case("basic") && !is_plain(word));
        let in_sql = (self.word.eq_ignore_ascii_case("by")
            && self.second.eq_ignore_ascii_case("identified"))
            || (self.word.eq_ignore_ascii_case("password") && word.starts_with(['\'', '"']));
        known || by_name || bearer || in_sql || self.assigns(word)
    }

    /// Detects `password = abc` in three words.
    fn assigns(&self, word: &str) -> bool {
        let name = self.second.trim_matches(['"', '\'', '$']);
        let of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let is_masked = word.trim_matches(['"', '\'']) == HIDDEN;
        matches!(self.word, "=" | ":" | ":=")
            && !is_masked
            && name.chars().all(of_name)
            && is_secret(name, word)
    }

    /// Masks `admin:***` after `-u` or in the same word. A user and a group look alike, so equal
    /// names and numbers are not masked.
    fn login(&self, word: &str) -> Option<String> {
        let begin = if takes_login(self.word) { 0 } else { login_in(word)? };
        let login = &word[begin..];
        let (user, rest) = login.split_once([':', '%'])?;
        let named = user.trim_start_matches(['"', '\'', '=']);
        let is_address = named.starts_with("http") && rest.starts_with("//");
        // `date -u +%s`
        let is_format = named.is_empty() || named.starts_with('+');
        let is_group = named == rest || (is_digits(named) && is_digits(rest));
        let quote = user.get(..1).filter(|quote| matches!(*quote, "\"" | "'"));
        let closing = quote.filter(|quote| rest.ends_with(*quote)).unwrap_or("");
        let is_login = !is_address && !is_format && !is_group && !rest.is_empty();
        is_login.then(|| format!("{}{HIDDEN}{closing}", &word[..=begin + user.len()]))
    }

    /// Masks `-p***` for programs that take a password in this form.
    fn attached(&self, word: &str) -> Option<String> {
        let option = word.get(..2).filter(|option| ATTACHED.contains(&(self.program, option)))?;
        (word.len() > 2 && !are_ports(&word[2..])).then(|| format!("{option}{HIDDEN}"))
    }
}

fn is_digits(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_digit())
}

/// Detects the ports `3000:80` of `docker run --name mongo -p 3000:80 mongo`.
fn are_ports(word: &str) -> bool {
    word.split_once(':').is_some_and(|(outer, inner)| is_digits(outer) && is_digits(inner))
}

/// Options with a user and a password, `curl --user admin:…`; the short ones are `-u` and `-U`.
const LOGIN_OPTIONS: [&str; 4] = ["user", "proxy-user", "login", "username"];

/// Options of one letter without a value that may precede `u` in one word: `curl -sSu admin:…`.
const SWITCHES: &str = "sSfkLiIgGvNnOjJ";

/// Whether the word after this option is a login.
fn takes_login(option: &str) -> bool {
    let Some(name) = option.strip_prefix('-') else { return false };
    let is_short = name.trim_start_matches(|c| SWITCHES.contains(c));
    matches!(is_short, "u" | "U") || LOGIN_OPTIONS.contains(&name.strip_prefix('-').unwrap_or(name))
}

/// The start of the login in `--user=admin:…` and `-uadmin:…`.
fn login_in(word: &str) -> Option<usize> {
    if let Some((option, _)) = word.split_once('=').filter(|(option, _)| takes_login(option)) {
        return Some(option.len() + 1);
    }
    let letters = word.strip_prefix('-')?.trim_start_matches(|c| SWITCHES.contains(c));
    let login = letters.strip_prefix(['u', 'U'])?;
    let begins = |c: char| c.is_alphanumeric() || "\"'$_".contains(c);
    login.starts_with(begins).then(|| word.len() - login.len())
}

/// Options of programs whose next word is a password, although their names do not say so. `login`
/// is the subcommand of `docker` and others.
const PASSWORD_OPTIONS: [(&str, &str); 26] = [
    ("sshpass", "-p"),
    ("redis-cli", "-a"),
    ("ldapsearch", "-w"),
    ("ldapmodify", "-w"),
    ("ldapadd", "-w"),
    ("login", "-p"),
    ("mongo", "-p"),
    ("mongosh", "-p"),
    ("mongodump", "-p"),
    ("zip", "-P"),
    ("unzip", "-P"),
    ("curl", "-b"),
    ("http", "-a"),
    ("https", "-a"),
    ("mysql", "-p"),
    ("mysqldump", "-p"),
    ("mysqladmin", "-p"),
    ("mariadb", "-p"),
    ("7z", "-p"),
    ("sqlcmd", "-P"),
    ("bcp", "-P"),
    ("tsql", "-P"),
    ("ipmitool", "-P"),
    ("mosquitto_sub", "-P"),
    ("mosquitto_pub", "-P"),
    ("mosquitto_rr", "-P"),
];

/// Options that take the password in the same word.
const ATTACHED: [(&str, &str); 10] = [
    ("mysql", "-p"),
    ("mysqldump", "-p"),
    ("mysqladmin", "-p"),
    ("mariadb", "-p"),
    ("7z", "-p"),
    ("curl", "-b"),
    ("sshpass", "-p"),
    ("sqlcmd", "-P"),
    ("bcp", "-P"),
    ("tsql", "-P"),
];

#[cfg(test)]
mod tests {
    use super::super::secret::{shown_text, shown_words, shown_words_strictly};

    #[test]
    fn secrets_are_hidden_in_every_spelling_of_an_option() {
        for (line, shown) in [
            ("curl --user=joe:correcthorse h", "curl --user=joe:*** h"),
            ("curl --user=joe:Tr0ub4dor&3 h", "curl --user=joe:*** h"),
            ("curl -ujoe:hunter2 h", "curl -ujoe:*** h"),
            ("curl -sSu joe:hunter2!x h", "curl -sSu joe:*** h"),
            ("curl -sSujoe:hunter2!x h", "curl -sSujoe:*** h"),
            ("curl -fu joe:abc h", "curl -fu joe:*** h"),
            ("curl --proxy-user=a:abc h", "curl --proxy-user=a:*** h"),
            ("curl -Ua:abc h", "curl -Ua:*** h"),
            ("app -user joe:abc", "app -user joe:***"),
            ("http h X-API-Key:9f8e7d6c5b", "http h X-API-Key:***"),
            ("http h Authorization:abcdef", "http h Authorization:***"),
            ("curl -HAuthorization:abcdef", "curl -HAuthorization:***"),
            ("app --hdr=Authorization:abc", "app --hdr=Authorization:***"),
            ("app password:abc,d&3", "app password:***"),
            ("app --token:abc", "app --token:***"),
            ("app {password:abc,user:me}", "app {password:***,user:me}"),
            ("app password = abc x", "app password = *** x"),
            ("redis-server --requirepass abc", "redis-server --requirepass ***"),
            ("sqlcmd -S db -P abc", "sqlcmd -S db -P ***"),
            ("sqlcmd -Pabc", "sqlcmd -P***"),
            ("/usr/bin/mosquitto_sub -P abc", "/usr/bin/mosquitto_sub -P ***"),
            ("docker login -p abc", "docker login -p ***"),
        ] {
            assert_eq!(shown_words(line.split(' ')).join(" "), shown);
            assert_eq!(shown_words_strictly(line.split(' ')).join(" "), shown);
            assert_eq!(shown_text(line), shown);
        }
        for (text, shown) in [
            ("curl -sSu 'joe:hunter2!x' h", "curl -sSu 'joe:***' h"),
            ("sh -c 'curl -ujoe:abc h'", "sh -c 'curl -ujoe:*** h'"),
            ("app password:\"abc d\" x", "app password:*** x"),
            ("Authorization:Bearer abc", "Authorization:***"),
            ("curl -H 'Authorization:Bearer abc' h", "curl -H 'Authorization:***' h"),
            (r#"["Accept", "Bearer abc"]"#, r#"["Accept", "Bearer ***"]"#),
            (r#"[\"bearer abc\",1]"#, r#"[\"bearer ***\",1]"#),
        ] {
            assert_eq!(shown_text(text), shown);
        }
        assert_eq!(shown_words([r#"["Bearer abc"]"#]), [r#"["Bearer ***"]"#]);
    }

    #[test]
    fn ordinary_values_of_the_same_options_stay_visible() {
        for line in [
            "app -u 1000",
            "app -u1000:1000",
            "app --user www-data",
            "app --user=www-data:www-data",
            "app -P 8080",
            "docker run -p 3000:3000 image:tag",
            "docker run --name mongo -p 3000:80 mongo",
            "curl http://host:80/x",
            "curl -u http://host:80/x",
            "app -Xrunjdwp:transport=dt_socket",
            "date -u +%H:%M",
            "docker run keycloak:21 auth:3000 forge.example/api-token:latest",
            "npm run auth:dev",
            "a = b",
            "echo ${TOKEN:-x}",
            "sqlcmd -S db",
        ] {
            assert_eq!(shown_words(line.split(' ')).join(" "), line);
            assert_eq!(shown_text(line), line);
        }
    }
}
