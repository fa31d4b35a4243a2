use std::collections::HashMap;
use std::fmt;

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Number(f64),
    Operator(char),
    Name(String),
}

#[derive(Debug)]
struct ParseError {
    position: usize,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unexpected character at {}", self.position)
    }
}

fn tokenize(text: &str) -> Result<Vec<Token>, ParseError> {
    let mut tokens = Vec::new();
    for (position, word) in text.split_whitespace().enumerate() {
        if let Ok(number) = word.parse::<f64>() {
            tokens.push(Token::Number(number));
        } else if word.len() == 1 && "+-*/".contains(word) {
            tokens.push(Token::Operator(word.chars().next().unwrap()));
        } else if word.chars().all(char::is_alphabetic) {
            tokens.push(Token::Name(word.to_string()));
        } else {
            return Err(ParseError { position });
        }
    }
    Ok(tokens)
}

fn main() {
    let mut counts: HashMap<String, usize> = HashMap::new();
    match tokenize("1 + x * 2.5") {
        Ok(tokens) => tokens.iter().for_each(|t| *counts.entry(format!("{:?}", t)).or_insert(0) += 1),
        Err(error) => eprintln!("{}", error),
    }
    println!("{:?}", counts);
}
