//! `SELECT` without a select list, which the parser reads only before `FROM`: a mark stands for the list while the text is parsed.

use datafusion::sql::sqlparser::ast::{Expr, SelectItem, SetExpr};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// What stands for an empty list; no name that a user writes has it.
const MARK: &str = "\u{1}none";

/// What may follow a select list, even an empty one.
const FOLLOWING: [Keyword; 12] = [
    Keyword::FROM,
    Keyword::WHERE,
    Keyword::GROUP,
    Keyword::HAVING,
    Keyword::WINDOW,
    Keyword::UNION,
    Keyword::INTERSECT,
    Keyword::EXCEPT,
    Keyword::ORDER,
    Keyword::LIMIT,
    Keyword::OFFSET,
    Keyword::FETCH,
];

/// The tokens of a text with a mark for each empty select list.
pub(crate) fn with_marks(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_empty = |place: usize| {
        let follows = match tokens.get(place + 1).map(|next| &next.token) {
            None | Some(Token::SemiColon | Token::RParen) => true,
            Some(Token::Word(word)) => word.quote_style.is_none() && FOLLOWING.contains(&word.keyword),
            Some(_) => false,
        };
        // A policy may be one `FOR SELECT`, and end with that.
        follows && is_keyword(&tokens[place], Keyword::SELECT) && (place == 0 || !is_keyword(&tokens[place - 1], Keyword::FOR))
    };
    if !(0..tokens.len()).any(is_empty) {
        return tokens;
    }
    let mut marked = Vec::with_capacity(tokens.len() + 1);
    for (place, token) in tokens.iter().enumerate() {
        marked.push(token.clone());
        if is_empty(place) {
            let mark = Token::Word(Word { value: MARK.to_string(), quote_style: Some('"'), keyword: Keyword::NoKeyword });
            marked.push(TokenWithSpan { token: mark, span: token.span });
        }
    }
    marked
}

fn is_keyword(token: &TokenWithSpan, keyword: Keyword) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.keyword == keyword)
}

/// Makes the select lists empty that have a mark. Queries inside are visited on their own.
pub(super) fn take_marks(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            if let [SelectItem::UnnamedExpr(Expr::Identifier(name))] = select.projection.as_slice()
                && name.value == MARK
            {
                select.projection.clear();
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            take_marks(left);
            take_marks(right);
        }
        _ => {}
    }
}
