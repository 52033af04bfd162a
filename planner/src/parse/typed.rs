//! Literals with their type in front, `inet '10.0.0.1'`: for types that are no keywords `sqlparser` reads none.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use thalweg_catalog::CarriedType;

/// The tokens with such literals as casts, `'10.0.0.1'::inet`, which bind as tightly.
pub(super) fn as_casts(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut at = 0;
    while at + 1 < tokens.len() {
        let is_free = at == 0 || tokens[at - 1].token != Token::Period;
        if is_free && is_type(&tokens[at].token) && is_string(&tokens[at + 1].token) {
            tokens.swap(at, at + 1);
            let cast = TokenWithSpan { token: Token::DoubleColon, span: tokens[at + 1].span };
            tokens.insert(at + 1, cast);
            at += 2;
        }
        at += 1;
    }
    tokens
}

/// Whether a token is the name of a type that is no keyword: of one of Postgres's, or of one that a user may have created.
fn is_type(token: &Token) -> bool {
    let Token::Word(word) = token else { return false };
    if word.keyword == Keyword::NoKeyword {
        // As in COMMIT PREPARED 'name'.
        return word.quote_style.is_some() || !word.value.eq_ignore_ascii_case("prepared");
    }
    let is_named = |found: CarriedType| {
        use CarriedType::{Bit, Shape, TimeTz, TsVector, VarBit};
        let is_keyword = matches!(found, Bit(_) | Shape(_) | TimeTz | TsVector | VarBit(_));
        !is_keyword && word.value.eq_ignore_ascii_case(found.name())
    };
    word.quote_style.is_none() && CarriedType::all().any(is_named)
}

fn is_string(token: &Token) -> bool {
    matches!(token, Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) | Token::DollarQuotedString(_))
}
