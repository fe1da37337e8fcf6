"""The phrases of the grammar: what a description may say. Each has a meaning in ``reading`` or in a recipe."""

# ruff: noqa: E501 - a table of patterns, one a line

from __future__ import annotations

from functools import cache

from optiml_core.synthesis.formulas import BINARY_FUNCTIONS, UNARY_FUNCTIONS
from optiml_core.synthesis.grammar import (
    BRACKETS,
    EXTENT,
    ITEMS,
    KIND,
    NAME,
    NUMBER,
    SIZE,
    SIZES,
    TYPE,
    Phrase,
    noun_phrase,
    phrase,
)

ONE, TWO, THREE = noun_phrase("1"), noun_phrase("2"), noun_phrase("3")
VALUE = rf"(?:the )?(?:(?P<valuetype>{TYPE}|scalar|constant|factor) )?(?P<value>{NUMBER}|{NAME})"
ROW_WORDS = r"(?:(?:over|along|of|for|in|across|per|on|to) )?(?:the |each |every |all |all the |its |each of the )?rows?(?: of)?"
COLUMN_WORDS = ROW_WORDS.replace("rows?", "columns?")
NOUN = (
    "results?|products?|sums?|totals?|mean|average|maximum|minimum|max|min|norms?|counts?|values?|output|index|indices|"
    "position|number|distances?|differences?|transpose|histogram|scan|answer|column sums|row sums"
)
INTO = (
    rf"(?:(?:then )?(?:store|stores|write|writes|put|save|saves|return)(?: (?:it|them|that|this|(?:the |each )?(?:{NOUN})))? "
    rf"(?:back )?(?:in|to|into|as)|(?:the )?(?:results?|output)(?: is| are)?(?: stored| written)? (?:in|to|into|goes to|goes into)"
    rf"|into|giving|yielding|producing|(?:, )?output(?: array| vector| matrix)?:?|result(?: is)?|writing (?:the )?(?:{NOUN}|it) (?:to|into))"
)
DESTINATION = rf"(?:the |an )?(?:output )?(?P<type>{TYPE} )?(?P<kind>{KIND} )?(?P<name>{NAME}(?: {BRACKETS})?(?: \[ 0 \])?)(?: (?P<extent>{EXTENT}))?"
OUTSIDE = (
    r"(?:(?:the )?(?:elements?|values?|points?|pixels?|neighbou?rs|cells|everything|what lies|what is) )?(?:that lie )?"
    r"outside(?: of)?(?: the)?(?: array| grid| image| range| domain| bounds| border)?"
)
BORDER = r"(?:the )?(?:boundary|border|edge)(?: points| cells| elements| values| pixels)?"
LARGEST, SMALLEST = "largest|maximum|max|biggest|greatest", "smallest|minimum|min|least"
EACH = r"(?:(?:each|every|all|all the)(?: element| elements| value| values| entry| entries)? (?:of|in) |elements of |all elements of |each |every )?"
COMPARISON = (
    r"greater than or equal to|less than or equal to|greater than|larger than|bigger than|above|at least|less than|"
    r"smaller than|below|at most|equal to|not equal to|exactly|>=|<=|>|<|=="
)
DO = r"(?:(?:compute|computes|calculate|find|determine|take|get|do|perform|apply|run|form|make|build|evaluate|return) )?(?:the |an )?"
SIDE = rf"{DO}(?:(?P<side>row|column)(?: - wise)? )?"
FUNCTION = rf"(?P<function>silu|swish|{'|'.join(sorted(UNARY_FUNCTIONS, key=len, reverse=True))}|square root|exponential|absolute value|square|negation|reciprocal|logarithm)"

# Headings of a formula: the formula says what is computed.
TITLES = (
    "saxpy|daxpy|axpy|gelu|silu|swish|relu|leaky relu|sigmoid|softplus|heat equation|heat|diffusion|laplace|laplacian|"
    "wave equation|jacobi|dequanti[sz]e|dequanti[sz]ation|embedding lookup|outer product|leapfrog|euler|verlet|blur|"
    "grayscale|rgb to grayscale|convert (?:an )?rgb image to grayscale|weighted sum|linear interpolation|lerp|"
    "gravity|n - body|momentum|sgd|weight decay|fma|polynomial|smoothing|gradient|reverse|squared error|"
    "bias add|bias|gather rows|gather|reduce|reduction|scale|activation|5 - point laplacian|finite differences?"
)
FILLERS = (
    r"[,.;:]", r"and", r"please", r"the", r"then(?= (?:store|write|put|save))", r"todo :?", r"@ ?brief",
    r"(?:please )?(?:write|make|create|implement|i need|we need|generate)(?: me)? (?:an |the )?(?:simple )?(?:cuda |gpu )?(?:kernel|function)"
    r"(?: (?:that|which|to|for))?(?: (?:computes?|calculates?|does|performs?|do))?",
    r"(?:an |the )?(?:simple )?(?:cuda |gpu )kernel(?: (?:that|which|to|for|:))?", r"kernel(?: (?:that|which|to|for|:))",
    r"compute|computes|calculate|calculates|set|evaluate", r"compute the (?:powers?|values?|results?)", r"in cuda|on the gpu|on gpu|in parallel",
    r"for(?= )|where|with|given|using|let", r"\( (?:gemm|sgemm|dgemm|gemv|spmv|prefix sum|reduction) \)",
    rf"(?:apply|evaluate|do|perform|set)(?= {NAME} =| {NAME} \[)|to (?:each|every|all)(?: elements?| values?)?(?: of| in)?",
    r"(?:reduce|reduction) :",
    r"(?:stored |in )?row - major(?: order)?|stored row by row|\( row - major \)", r"smooth(?= the )", rf"to(?= (?:the )?{SIZE} {TYPE})", r"update(?= )",
)  # fmt: skip

MARKS = {
    "title": rf"(?:apply |compute |do )?(?:the )?(?:{TITLES})(?: (?:kernel|activation|function|step|update|operation|conversion|forces?))* :|"
    rf"(?:the )?(?:{TITLES})(?= (?:on|of|over|for) {SIZE} {TYPE} :)|\( (?:saxpy|daxpy|axpy|jacobi|relu) \)|"
    rf"(?:apply |compute |do )?(?:the )?(?:{TITLES})(?: (?:activation|step|update))?(?= {NAME} (?:=|\[))",
    "rows": rf"{ROW_WORDS}|row - wise|rowwise|by rows?|per(?: -)? row|(?:over|along|on) (?:the )?(?:last|inner|innermost|second) (?:axis|dimension|dim)(?: of)?|(?:along|over) (?:axis|dim)(?: =)? (?:1|- 1)(?: of)?|for each row independently",
    "columns": rf"{COLUMN_WORDS}|column - wise|columnwise|by columns?|per(?: -)? column|(?:over|along|on) (?:the )?(?:first|outer) (?:axis|dimension|dim)(?: of)?|(?:along|over) (?:axis|dim)(?: =)? 0(?: of)?",
    "all": r"(?:of |over |in )?(?:all|all the|every|the whole|whole|the entire)(?: elements?| entries| values| array| matrix| vector)?(?: of| in)?",
    "zero outside": rf"{OUTSIDE} (?:count|counts|is|are|is taken|are taken|be|is treated|are treated)?(?: as| to be)? ?(?:zeros?|0)|"
    r"(?:with |using )?zero(?: -)? ?(?:padding|padded|boundary|boundaries|boundary conditions?)|zeros? outside|(?:with )?zero - padded borders?|"
    rf"treat {OUTSIDE} as (?:zeros?|0)",
    "copy": rf"{BORDER} (?:are|is|stay|stays|remain|remains) (?:copied|unchanged|the same)|copy {BORDER}|"
    rf"(?:leave|keep) {BORDER} unchanged",
    "clamp": rf"clamp(?:ed|ing)?(?: (?:the (?:indices|edges?|borders?|boundary)|at the (?:edges?|borders?|boundary)|to the edges?))?|nearest outside|"
    rf"repeat(?:ed)? (?:the )?(?:edges?|borders?)|{OUTSIDE} (?:counts?|is|are) (?:as )?the nearest(?: element| value| pixel)?",
    "elementwise": r"element ?- ?wise|elementwise|pointwise|element by element",
    "in place": r",? ?(?:in - place|in place)",
    "inclusive": "inclusive(?: of (?:the|its own) element)?", "exclusive": "exclusive",
    "ascending": "(?:in )?(?:ascending|increasing) order|ascending", "descending": "(?:in )?(?:descending|decreasing) order|descending",
    "no flip": r"(?:\( )?(?:no flip|without flip(?:ping)?|no flipping|not flipped)(?: , zero (?:padding|outside) \))?|cross - correlation",
    "valid": r"(?:valid (?:part|outputs?|positions)(?: only)?|without padding|no padding)",
    "first of ties": r"; if there are several , the first|(?:the )?first (?:one )?(?:if there are several|of equal ones|in case of ties|on ties)",
    "unit range": r"(?:all )?(?:in|between|from) (?:the range )?(?:\[ 0 , 1 [\])]|0 (?:and|to) 1)",
    "permutation": r"\( an permutation \)|(?:all )?(?:indices |entries )?(?:are )?(?:distinct|unique)(?: indices)?",
    "doubles points": rf", (?P<type2>{TYPE})|\( (?P<type>{TYPE})(?: , coordinates of an point next to each other)? \)",
    "shape": rf"an (?P<shape>{SIZE} (?:x|by) {SIZE}) (?:matrix|array|grid)",
    "jacobi": r"(?:one |an )?jacobi (?:step|iteration|sweep)(?: on| over)?",
    "weights": rf"(?:with |and )?(?:the )?(?:learned |learnable )?(?:weights?|scale|gain) (?:vector )?(?P<name>{NAME})(?: (?P<extent>{EXTENT}))?|scaled by (?P<scale>{NAME})",
    "bias": rf"(?:with |and )?(?:the )?bias (?:vector )?(?P<name>{NAME})(?: (?P<extent>{EXTENT}))?|(?:and )?shifted by (?P<shift>{NAME})",
    "eps": rf"(?:with )?(?:eps|epsilon)(?: (?:=|of))? (?P<value>{NUMBER})|(?:with )?(?:eps|epsilon)",
    "in that order": r"(?:in that order|in this order)(?: :)?",
}  # fmt: skip

DECLARATIONS = {
    "counted": rf",? ?(?:for |of |over |on )?(?:all |the )?(?P<size>{SIZE}) (?:(?P<type>{TYPE})|elements|points|entries|values)(?: each)?",
    "copula": rf"(?P<items>{ITEMS}) (?:is|are) (?:an |the |two |three )?(?P<adjectives>(?:real |dense |row - major |contiguous |sorted |square |input )*)"
    rf"(?:(?P<count>{SIZE}) (?=floats|doubles|ints|bytes))?(?P<pre>{SIZES} )?(?P<type>{TYPE} )?(?P<kind>{KIND})?(?: ?(?P<extent>{EXTENT}|of {SIZE} {TYPE}|{BRACKETS}))?",
    "holds": rf"(?P<items>{ITEMS}) (?:each )?(?:holds?|contains?|has|have) (?P<count>{SIZE}) (?:real )?(?P<type>{TYPE}|elements|values)(?: each)?",
    "holds one": rf"(?P<items>{NAME}) (?:holds|contains|has) one (?P<type>{TYPE}) for each (?:of the (?P<size>{SIZE}) )?(?:nodes?|points?|edges?|rows?|particles?)",
    "holds them": rf"(?P<items>{NAME}) (?:holds|contains) (?:them|these)(?: as (?P<type>{TYPE}))?",
    "permutation": rf"(?P<name>{NAME}) is an permutation of 0 to (?P<size>{SIZE}) - 1",
    "all of": rf",? ?(?:both|all|each) of (?:length )?(?P<size>{SIZE})(?: (?P<type>{TYPE}|elements))?(?: each)?|,? ?(?:both|all)(?: of)? (?:them )?(?P<only>{TYPE})|in (?P<precision>single|double)(?: -)? precision",
    "all grids": rf",? ?(?:both|all|each) (?:of )?(?P<sizes>{SIZES})(?: (?P<type>{TYPE}))?",
    "scalar": rf"(?:an |the )?(?:(?P<type>{TYPE}) )?(?:scalars?|constants?|factors?|parameters?|coefficients?|number) (?P<names>{NAME}(?: , {NAME})*(?: and {NAME})?)"
    rf"|(?P<names2>{NAME}(?: , {NAME})*(?: and {NAME})?) (?:is|are) (?:an |the )?(?:(?P<type2>{TYPE}) )?(?:scalars?|constants?|factors?|numbers?)",
    "loop": rf"for (?:all |each |every )?(?:0 <= )?(?P<below_index>[a-z]) < (?P<below2>{SIZE})|for (?:each|every|all) (?:edge|node|point|element|entry|pixel|particle|cell|item)s? (?P<index>\w) of (?:the )?(?P<size>{SIZE}) "
    r"(?:edges|nodes|points|elements|entries|pixels|particles|cells|items)|for (?:all|each|every) (?P<bare>[a-z])(?: (?:and|,) (?P<bare2>[a-z]))?(?: (?:<|in|below) (?P<below>" + SIZE + "))?",
    "spectrum": rf"(?:given )?the real parts (?P<re>{NAME}) and the imaginary parts (?P<im>{NAME}) of an spectrum of (?P<size>{SIZE}) (?P<type>{TYPE}) each",
    "coordinates": rf"(?P<axis>\w) coordinates? of (?:the )?(?P<size>{SIZE}) points",
    "graph": rf"an graph has (?P<nodes>{SIZE}) nodes and (?P<edges>{SIZE}) edges",
    "leaves": rf"edge (?P<e>\w) (?P<verb>leaves|reaches|enters) node (?P<ends>{NAME}) \[ (?P=e) \]",
    "same": r"(?:both )?of the same (?:length|size|shape)",
}  # fmt: skip

OPERATIONS = {
    "sum of squares": rf"{SIDE}(?:sum of (?:the )?squares|sum of squared (?:elements|values))(?: of)?(?: all)?",
    "sum of absolute": rf"{SIDE}(?:sum of (?:the )?absolute values|(?:l1|manhattan|1)(?: -)? ?norm)(?: of)?",
    "euclidean norm": rf"{SIDE}(?:euclidean|l2|2)(?: -)? ?(?:norm|length)s?(?: of)?",
    "largest absolute": rf"{SIDE}(?:(?:largest|maximum|max) absolute value|(?:infinity|max|maximum)(?: -)? ?norm)s?(?: of)?",
    "norm": rf"{DO}norms?(?: of)?",
    "mean": rf"{SIDE}(?:mean|average)s?(?: value)?(?: of)?",
    "largest": rf"{SIDE}(?:{LARGEST})(?: element| value| entry)?(?: of| in| among| over)?",
    "smallest": rf"{SIDE}(?:{SMALLEST})(?: element| value| entry)?(?: of| in| among| over)?",
    "sum": rf"{SIDE}(?:sums?|total|reduce sum|sum reduction|reduction \( sum \))(?: up)?(?: of)?|{DO}add up|sum - reduce",
    "argmax": rf"{SIDE}(?:argmax|(?:position|index|place)(?: of)?(?: the)? (?:{LARGEST})(?: element| value)?)(?: of)?(?: along| in| among)?",
    "argmin": rf"{SIDE}(?:argmin|(?:position|index|place)(?: of)?(?: the)? (?:{SMALLEST})(?: element| value)?)(?: of)?(?: along| in| among)?",
    "count": rf"(?:count|find)(?: how many| the number)? (?:of )?{ONE} (?:that )?(?:are|is) (?P<how>{COMPARISON}) {VALUE}|"
    rf"{DO}(?:count|number) of (?:the )?(?:elements|values|entries) (?:of|in) {TWO} (?:that are )?(?P<how2>{COMPARISON}) {VALUE.replace('<value', '<value2').replace('valuetype', 'valuetype2')}|"
    rf"count (?:how many |the )?(?:elements|values|entries) (?:of|in) {THREE} (?:that )?(?:are )?(?P<how3>{COMPARISON}) {VALUE.replace('<value', '<value3').replace('valuetype', 'valuetype3')}",
    "count those": rf"{DO}(?:count|number of|count of)(?: the| how many)? (?:values|elements|entries) (?P<how>{COMPARISON}) {VALUE} (?:in|of) {ONE}",
    "count zeros": rf"{DO}(?:count|number of|count of)(?: the| of)? (?P<not>non - ?zero|non ?zero)?(?:zero)?s?(?: elements| values| entries)? (?:of|in) {ONE}",
    "vector distance": rf"{DO}(?P<squared>squared )?(?:euclidean|l2) distance (?:between|of) {ONE}",
    "mean squared error": rf"{DO}(?:mean squared error|mse|mean square error)(?: of| between) {ONE}",
    "clamp": rf"(?:clamp|clip) {EACH}{ONE} (?:to|between|into) (?:the range )?(?:\[ (?P<low>{NUMBER}|{NAME}) , (?P<high>{NUMBER}|{NAME}) \]|(?P<low2>{NUMBER}|{NAME}) and (?P<high2>{NUMBER}|{NAME}))",
    "add to rows": rf"add (?:the |an )?(?:(?P<biastype>{TYPE}) )?(?:vector |bias )*(?P<bias>{NAME}|bias)(?: of length {SIZE}| \( {SIZE} {TYPE} \))? to (?:each|every) (?P<axis>row|column) of {ONE}",
    "reverse": rf"reverse (?:the order of )?{ONE}",
    "scan": rf"{DO}(?P<which>inclusive |exclusive )?(?:(?P<running>running sums?|cumulative sums?|cumsum)|prefix sums?|prefix - sum|(?:plus )?scan)(?: of| over| along)?(?: the)?",
    "softmax": rf"{DO}(?P<log>log(?: -)? ?)?softmax(?: of| over)?|{DO}(?P<log2>log)softmax(?: of| over)?",
    "layer norm": rf"{DO}layer(?: -)? ?norm(?:ali[sz]ation)?(?: of| over)?|layer - normali[sz]e|normali[sz]e (?:each|every) row of(?= )",
    "rms norm": rf"{DO}(?:rms(?: -)? ?norm(?:ali[sz]ation)?|root mean square norm(?:ali[sz]ation)?)(?: of| over)?",
    "transpose": rf"{DO}transpose(?:s)?(?: of)?|transposed?",
    "permute": rf"permute (?:the (?:axes|dimensions) of )?{ONE} (?:to|into) (?:the )?(?:shape |order )?\( (?P<to>{SIZE}(?: (?:x|,) {SIZE}){{1,3}}) \)|"
    rf"permute (?:the (?:axes|dimensions) of )?{TWO} (?:by|with|in the order|to the order|as) \( (?P<axes>\d(?: , \d){{1,3}}) \)",
    "product in text": rf"(?P<target>{NAME}) = (?P<left>{NAME})(?: @)? (?P<right>{NAME})",
    "multiply": rf"multiply (?!two |the two |both ){ONE} (?:by|with|and|times) {TWO}",
    "multiply two": rf"(?:multiply|matrix - multiply) {THREE}",
    "matrix product": rf"{DO}(?P<batched>batch(?:ed)? (?:of )?)?(?:matrix products?|matrix(?: -)? multipl(?:y|ication)|matmuls?|sgemm|dgemm|gemm|bmm|(?:general )?matrix - matrix (?:product|multiplication))(?: of| for)?",
    "matrix vector": rf"{DO}(?:matrix(?: -)? vector (?:products?|multipl(?:y|ication))|gemv|sgemv|dgemv)(?: of| for)?",
    "batch": rf"for (?:each|every)(?: of the {SIZE})? (?:batch(?: element)?|matrix|pair|slice)(?: in the batch)?(?: [a-z])?",
    "dot": rf"{DO}(?:dot|inner|scalar) product(?: of| between)?",
    "axpy": rf"(?:scale|multiply) {ONE} (?:by|with) {VALUE} (?:and|then) add (?:it|that|the result) to {TWO}",
    "scale": rf"(?:scale|multiply) {EACH}{ONE} (?:by|with) {VALUE}",
    "add value": rf"(?P<verb>add|subtract) (?P<value>{NUMBER}|(?:the )?(?:scalar|constant) {NAME}) (?:to|from) {EACH}{ONE}",
    "divide value": rf"divide {EACH}{ONE} by (?P<value>{NUMBER}|(?:the )?(?:scalar|constant) {NAME})",
    "pair": rf"(?P<verb>add|subtract|divide) (?!two |the two |both ){ONE} (?P<by>and|by|to|from|with) {TWO}|"
    rf"(?:element ?- ?wise|elementwise) (?P<noun>sum|product|difference|quotient|addition|multiplication|maximum|minimum) of {noun_phrase('4')}",
    "add two": rf"add {THREE}",
    "apply": rf"(?:(?:apply|compute|take|evaluate) )?(?:the )?{FUNCTION}(?: function| activation)?(?P<inside> in place)? (?:to|of|on) {EACH}{ONE}|(?P<function2>square|negate) {EACH}{TWO}",
    "copy": rf"copy {ONE}(?: (?:to|into) (?P<target>{NAME}))?",
    "fill": rf"(?:fill|set|initiali[sz]e|init) {EACH}{ONE} (?:with|to) (?P<value>{NUMBER})",
    "neighbours": rf"(?:set )?(?:every |each )?(?P<interior>interior )?point of (?P<target>{NAME}) becomes the average of its (?P<many>four|two|4|2)(?: nearest| direct)? neighbou?rs in (?P<source>{NAME})|"
    rf"{DO}(?:average of|average over)(?: the| its)? (?P<many2>four|two|4|2)(?: nearest| direct)? neighbou?rs (?:of|in) {ONE}",
    "histogram": rf"{DO}histogram(?: (?:with|of|using) (?P<bins>{SIZE}) bins)?(?: of| for| over)?|(?P<bins2>{SIZE}) - bin histogram of",
    "with bins": rf"(?:with|using|into|in|,) (?P<bins>{SIZE})(?: equal)? bins",
    "equal bins": rf"count how many fall into each of (?:the )?(?P<bins>{SIZE}) equal (?:intervals|bins)",
    "key counts": rf"count how often (?:each|every) (?:key|value|number|integer) from 0 to (?P<bins>{SIZE}) - 1 occurs(?: in)?",
    "degrees": rf"count the (?P<which>out|in) - degrees? of (?:every|each) node in {DESTINATION}|count the (?P<which2>out|in) - degrees? of (?:every|each) node",
    "spmv": rf"multiply (?:an|the) sparse matrix in csr form \( (?P<rows>{SIZE}) rows ; (?P<lists>[^)]*) \) by (?:the |an )?(?:dense )?(?P<type>{TYPE} )?vector (?P<x>{NAME}) of length (?P<cols>{SIZE})|"
    rf"(?:sparse matrix(?: -)? vector product|spmv) (?:in csr form|in csr format|with csr) \( (?P<rows2>{SIZE}) rows ; (?P<lists2>[^)]*) \) (?:with|by) (?:the |an )?(?:dense )?(?P<type2>{TYPE} )?vector (?P<x2>{NAME}) of length (?P<cols2>{SIZE})",
    "entries": rf"an sparse matrix is stored as (?P<nnz>{SIZE}) entries , entry (?P<e>\w) being the (?P<type>{TYPE}) (?P<values>{NAME}) \[ (?P=e) \] in row (?P<row>{NAME}) \[ (?P=e) \]",
    "entry sums": rf"(?:add up|sum) the (?:entries|values) of each of the (?P<rows>{SIZE}) rows",
    "lower bound": rf"for each of the (?P<count>{SIZE}) (?P<type>{TYPE} )?(?:in|of) (?P<query>{NAME}) find the number of elements (?:of|in) (?P<table>{NAME}) that are (?P<how>smaller|less)(?P<equal> or equal)?",
    "sort": rf"sort {ONE}",
    "convolution": rf"(?:convolve|correlate|cross - correlate|filter) {ONE} (?:with|by) (?:the |an )?(?:(?P<down>\d+) (?:x|by) (?P<across>\d+) )?(?P<ftype>{TYPE} )?(?:filter |kernel |mask |stencil )?(?P<filter>{NAME})(?: of (?:length|width|size) (?P<taps>{SIZE})| \( (?P<down2>\d+) (?:x|by) (?P<across2>\d+) \)| of (?P<taps2>{SIZE}) (?:taps|weights|coefficients|{TYPE}))?|"
    rf"{DO}(?:[12] ?(?:- )?d )?(?:convolution|cross - correlation) of {TWO} (?:with|and) (?:the |an )?(?:(?P<down3>\d+) (?:x|by) (?P<across3>\d+) )?(?:{TYPE} )?(?:filter |kernel |mask )?(?P<filter2>{NAME})(?: of (?:length|width|size) (?P<taps3>{SIZE})| of (?P<taps4>{SIZE}) (?:taps|weights|coefficients|{TYPE}))?",
    "pairwise": rf"(?:for )?(?P<m>{SIZE}) points (?P<p>{NAME}) and (?P<n>{SIZE}) points (?P<q>{NAME}) in (?P<many>one|two|three|four|\d) dimensions?",
    "distances": rf"(?:compute )?(?:the )?(?:(?P<squared>squared )|(?P<euclidean>euclidean ))*distances? (?P<name>{NAME} )?(?:of|between) (?:every|each|all) pairs?(?: of points)?",
    "distances between": rf"(?:compute )?(?:the )?(?:(?P<squared>squared )|(?P<euclidean>euclidean ))*distances? (?P<name>{NAME} )?between (?P<m>{SIZE}) points (?P<p>{NAME}) and (?P<n>{SIZE}) points (?P<q>{NAME}) in (?P<many>one|two|three|four|\d) dimensions?",
    "dft": rf"{DO}(?:forward )?(?:discrete fourier transform|dft)(?: of)?",
    "dft parts": rf"(?:;|,)? ?(?:write|store) (?:the )?real parts? (?:to|in|into) (?P<re>{NAME}) and (?:the )?imaginary parts? (?:to|in|into) (?P<im>{NAME})",
    "gather": rf"gather {ONE} (?:at|by|from|through|using|with)(?: the)?(?: indices| index)?(?: in)? {TWO}",
    "scatter": rf"scatter(?P<add> - add)? {ONE} (?:into|to) (?P<target>{NAME}(?: {BRACKETS})?(?: of {SIZE} {TYPE}| of length {SIZE})?) (?:at|by|through|using)(?: the)?(?: indices| index)?(?: in)? {TWO}",
}  # fmt: skip


@cache
def phrases() -> tuple[Phrase, ...]:
    """Every phrase, compiled once."""
    made = [phrase("filler", pattern) for pattern in FILLERS]
    made += [phrase(f"mark:{name}", pattern) for name, pattern in MARKS.items()]
    made += [phrase(f"declare:{name}", pattern) for name, pattern in DECLARATIONS.items()]
    made += [phrase(f"op:{name}", pattern) for name, pattern in OPERATIONS.items()]
    made += [phrase("np", rf"(?:for |of |where |given |over |on |with |from |in )?{noun_phrase()}")]
    made += [phrase("out", rf"(?:, )?(?:and )?{INTO} {DESTINATION}")]
    made += [
        phrase("out", rf", in {DESTINATION}"),
        phrase("out", rf"(?:,? ?updating|and update) (?P<name>{NAME}) (?P<place>in place)"),
    ]
    made += [phrase("write", r"write|store"), phrase("to", rf"(?:and write )?to {DESTINATION}")]
    return tuple(made)


__all__ = ["BINARY_FUNCTIONS", "OPERATIONS", "phrases"]
