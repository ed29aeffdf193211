"""The words of the grammar, by part of speech; the part of a name after a slash is used by the rules (rules.py)."""

WORDS = """
NN/person: teacher doctor farmer painter student singer neighbour lawyer driver nurse pilot cook soldier poet guest
NN/person: girl boy woman man child king
NN/thing: book letter car lamp table chair bottle key box coat piano clock basket carpet mirror bicycle camera ring
NN/thing: picture boat dress newspaper ladder watch plant
NN/material: silver stone glass kitchen leather office garden
NN/part: colour price owner shape cover handle weight name end top
NN/place: garden kitchen village house park station library church market forest harbour office museum school river
NN/place: bridge
NN/event: concert meeting party wedding lecture match dance exhibition trial
NN/feature: beard hat scarf roof tail handle balcony lid moustache smile
NN/tool: hammer brush spoon knife cloth key rope stick spade needle
NN/topic: history music poetry money politics love art
NN/daytime: morning evening afternoon night
NN/span: week month year winter summer spring
NN/adverbial: yesterday today tomorrow
NNP/name: Anna Peter Maria Thomas Laura Felix Clara Oscar Emma Victor Nora Hugo
NNP/surname: Smith Baker Miller Wood Stone Fisher
NNP/city: Vienna Paris Oslo Lisbon Dublin Rome
NNP/day: Monday Tuesday Wednesday Thursday Friday Saturday Sunday
NNP/month: January March April June July September October December
JJ: old young small big happy famous quiet strange clever tired rich poor beautiful dirty new heavy
JJ/colour: red green blue white black yellow
JJ/of: proud afraid full
JJ/to: ready eager glad
JJ/last: last next
JJ/many: many
JJR: older younger bigger smaller richer cleverer heavier
JJR/more: more fewer
RB/manner: slowly quickly quietly happily loudly carefully badly well
RB/sentence: however perhaps fortunately suddenly therefore
RB/very: very rather quite
RB/not: not
RB/just: just already never
RB/nearly: nearly almost
RP: up off out away
DT/sg: the a the every this
DT/pl: the some these the
DT/a: a
DT/the: the
DT/every: every
DT/this: this
PRP/sg: he she
PRP/pl: they we
PRP/object: him them us
PRP$: his her their our
CD: two three four seven ten twelve twenty fifty
CC: and or
CC/and: and
CC/clause: and but
EX: there
MD: will can must should may could
TO: to
IN/place: in near behind under beside at
IN/on: on
IN/in: in
IN/during: during after before
IN/by: by
IN/of: of
IN/with: with
IN/about: about
IN/from: from
IN/than: than
IN/that: that
IN/whether: whether if
IN/because: because
IN/although: although if while
WRB: where when why how
WRB/when: when
WRB/how: how
WP/who: who
WP/whom: whom
WP/what: what
WDT/that: that
WDT/which: which
WDT/relative: which
POS: 's
VBZ/do: does
VBP/do: do
VBD/do: did
VBZ/be: is
VBP/be: are
VBD/be: was
VBD/were: were
VB/be: be
VBZ/have: has
VBP/have: have
VBD/say: said
,: ,
./.: .
./?: ?
./!: !
:: --
``: ``
'': ''
-LRB-: -LRB-
-RRB-: -RRB-
-NONE-/trace: *T*-1
-NONE-/moved: *T*-1
-NONE-/dropped: *PRO*
-NONE-/zero: 0
"""

# Irregular plurals; random_tree.py forms the others
PLURALS = {"woman": "women", "man": "men", "child": "children", "knife": "knives"}

# Verbs by their complements (rules.py), each as: infinitive, third person, past, participle, gerund.
# The past must differ from the infinitive: "they put it there" would have two trees.
VERBS = """
iv: sleep sleeps slept slept sleeping; laugh laughs laughed laughed laughing; dance dances danced danced dancing
iv: work works worked worked working; wait waits waited waited waiting; sing sings sang sung singing
iv: swim swims swam swum swimming; smile smiles smiled smiled smiling; rest rests rested rested resting
ta: find finds found found finding; meet meets met met meeting; hide hides hid hidden hiding
ta: leave leaves left left leaving; lose loses lost lost losing; catch catches caught caught catching
ta: see sees saw seen seeing; photograph photographs photographed photographed photographing
tn: sell sells sold sold selling; own owns owned owned owning; describe describes described described describing
tn: know knows knew known knowing; like likes liked liked liking; draw draws drew drawn drawing
tn: buy buys bought bought buying; paint paints painted painted painting
tt: open opens opened opened opening; clean cleans cleaned cleaned cleaning; break breaks broke broken breaking
tt: repair repairs repaired repaired repairing; touch touches touched touched touching
te: attend attends attended attended attending; miss misses missed missed missing
te: organise organises organised organised organising; plan plans planned planned planning
dv: give gives gave given giving; send sends sent sent sending; show shows showed shown showing
dv: offer offers offered offered offering; lend lends lent lent lending
pv: place places placed placed placing; store stores stored stored storing; lay lays laid laid laying
pt: pick picks picked picked picking; throw throws threw thrown throwing; carry carries carried carried carrying
sv: say says said said saying; think thinks thought thought thinking; believe believes believed believed believing
sv: hear hears heard heard hearing; claim claims claimed claimed claiming
qv: ask asks asked asked asking; wonder wonders wondered wondered wondering
cv: want wants wanted wanted wanting; try tries tried tried trying; hope hopes hoped hoped hoping
cv: decide decides decided decided deciding
oc: persuade persuades persuaded persuaded persuading; tell tells told told telling
oc: invite invites invited invited inviting
gv: enjoy enjoys enjoyed enjoyed enjoying; avoid avoids avoided avoided avoiding; stop stops stopped stopped stopping
"""
