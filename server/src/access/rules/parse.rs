//! The rule file's lines.

use super::{Method, Network, Rule, Rules, Transport, Which, Who};
use std::iter::Peekable;
use std::net::IpAddr;
use std::str::Chars;

/// A word of a line, and whether it was quoted: then it is a name, whatever it says.
type Word = (String, bool);

/// The rules of a text, or what is wrong in which line.
pub(super) fn rules(text: &str) -> Result<Rules, (usize, String)> {
    let mut rules = vec![];
    for (index, line) in text.lines().enumerate() {
        let line_number = index + 1;
        let fields = fields(line).map_err(|why| (line_number, why))?;
        if !fields.is_empty() {
            rules.push(rule(line_number, &fields).map_err(|why| (line_number, why))?);
        }
    }
    Ok(Rules(rules))
}

/// The fields of a line, each a list of words that stand between commas. What follows `#` does not count.
fn fields(line: &str) -> Result<Vec<Vec<Word>>, String> {
    let mut fields: Vec<Vec<Word>> = vec![];
    let mut chars = line.chars().peekable();
    let mut continues = false;
    loop {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        let Some(&next) = chars.peek() else { break };
        if next == '#' {
            break;
        }
        if next == ',' {
            chars.next();
            if fields.is_empty() || continues {
                return Err("a comma stands where a word should".into());
            }
            continues = true;
            continue;
        }
        let word = word(&mut chars)?;
        match fields.last_mut() {
            Some(list) if continues => list.push(word),
            _ => fields.push(vec![word]),
        }
        continues = false;
    }
    if continues { Err("the line ends with a comma".into()) } else { Ok(fields) }
}

fn word(chars: &mut Peekable<Chars<'_>>) -> Result<Word, String> {
    let (mut text, mut quoted) = (String::new(), false);
    while let Some(c) = chars.next_if(|c| !c.is_whitespace() && *c != ',' && *c != '#') {
        if c != '"' {
            text.push(c);
            continue;
        }
        quoted = true;
        loop {
            match chars.next() {
                Some('"') if chars.next_if_eq(&'"').is_some() => text.push('"'),
                Some('"') => break,
                Some(c) => text.push(c),
                None => return Err("a quotation has no end".into()),
            }
        }
    }
    Ok((text, quoted))
}

fn rule(line: usize, fields: &[Vec<Word>]) -> Result<Rule, String> {
    let mut rest = fields.iter();
    let mut next = |what: &str| rest.next().ok_or_else(|| format!("the {what} is missing"));
    let transport = match one(next("kind of connection")?)? {
        "local" => Transport::Local,
        "host" => Transport::Host,
        "hostssl" => Transport::HostTls,
        "hostnossl" => Transport::HostPlain,
        other => return Err(format!("\"{other}\" is no kind of connection: use local, host, hostssl or hostnossl")),
    };
    let databases = next("database")?.iter().map(database).collect::<Result<_, _>>()?;
    let users = next("user")?.iter().map(user).collect::<Result<_, _>>()?;
    let mut network = None;
    if transport != Transport::Local {
        let address = one(next("address")?)?;
        network = match address {
            "all" => None,
            text if text.contains('/') => Some(with_bits(text)?),
            text => Some(with_mask(text, one(next("mask, or the number of bits behind a slash,")?)?)?),
        };
    }
    let method = match one(next("method")?)? {
        "trust" => Method::Trust,
        "reject" => Method::Reject,
        "scram-sha-256" => Method::Scram,
        "cert" => Method::Certificate,
        "md5" | "password" => return Err("passwords are asked for with scram-sha-256 only".into()),
        other => return Err(format!("\"{other}\" is no method: use trust, reject, scram-sha-256 or cert")),
    };
    if method == Method::Certificate && transport != Transport::HostTls {
        return Err("cert goes with hostssl only".into());
    }
    match rest.next() {
        Some(option) => Err(format!("there is no option \"{}\"", one(option)?)),
        None => Ok(Rule { line, transport, databases, users, network, method }),
    }
}

fn one(field: &[Word]) -> Result<&str, String> {
    match field {
        [(text, _)] => Ok(text),
        _ => Err("a list stands where one word should".into()),
    }
}

fn database((text, quoted): &Word) -> Result<Which, String> {
    Ok(match text.as_str() {
        "all" if !quoted => Which::All,
        "sameuser" if !quoted => Which::SameUser,
        "samerole" | "samegroup" if !quoted => Which::SameRole,
        "replication" if !quoted => return Err("there are no connections for replication".into()),
        name if name.starts_with('@') && !quoted => return Err("lists in other files are not supported".into()),
        name => Which::Named(name.to_string()),
    })
}

fn user((text, quoted): &Word) -> Result<Who, String> {
    Ok(match text.as_str() {
        "all" if !quoted => Who::All,
        name if name.starts_with('@') && !quoted => return Err("lists in other files are not supported".into()),
        name => match name.strip_prefix('+') {
            Some(role) if !quoted => Who::MembersOf(role.to_string()),
            _ => Who::Role(name.to_string()),
        },
    })
}

fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("\"{text}\" is no IP address: names of hosts are not supported"))
}

fn with_bits(text: &str) -> Result<Network, String> {
    let (ip, bits) = text.split_once('/').unwrap_or((text, ""));
    let address = address(ip)?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.parse().ok().filter(|bits| *bits <= most);
    bits.map(|bits| Network { address, bits }).ok_or_else(|| format!("\"{text}\" is no network: bits go from 0 to {most}"))
}

fn with_mask(text: &str, mask: &str) -> Result<Network, String> {
    let (address, mask_address) = (address(text)?, address(mask)?);
    let (ones, rest) = match (address, mask_address) {
        (IpAddr::V4(_), IpAddr::V4(mask)) => (mask.to_bits().leading_ones(), u128::from(mask.to_bits()).count_ones()),
        (IpAddr::V6(_), IpAddr::V6(mask)) => (mask.to_bits().leading_ones(), mask.to_bits().count_ones()),
        _ => return Err("address and mask are of different kinds".into()),
    };
    if ones != rest {
        return Err(format!("\"{mask}\" is no mask"));
    }
    Ok(Network { address, bits: u8::try_from(ones).unwrap_or(u8::MAX) })
}
