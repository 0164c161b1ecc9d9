package model

// lexiconSource is a lexicon as it is written down: words between blanks, cues
// between commas. A cue that ends in * is the beginning of a word.
type lexiconSource struct {
	tag                              string
	ordinals                         bool
	stop, open, ask, do              string
	problem, request, decision, must string
}

var lexiconSources = []lexiconSource{
	{
		tag: "en",
		stop: `a an the and or of to in on at for with from by as is are was were be been being am do does did done
			have has had having not no nor yes can will would shall may might me my mine we us our ours you your yours her
			his him hers them their its i if than about into over under up down out off all any each few more most some such only own same
			just also good morning everyone very really too much help helping again now here there get got let make thanks thank hi hello hey ok okay sure great please
			one two well still yet because while after before until between through during both other another much many
			i'm i've it's don't that's we're you're i'll we'll can't didn't isn't doesn't won't let's there's welcome
			look looks like bit going want know think`,
		open: `it this that these those he she they but so then however therefore thus instead which who such otherwise
			meanwhile anyway also and or because`,
		ask: `what why how when where who which whose is are do does did can could would should will has have`,
		do: `please open close click press select choose check restart run start stop set make call send install update upgrade
			enter type go turn remove delete add create use try wait ask contact remember avoid keep take write read test verify enable
			disable log sign copy save download connect disconnect unplug plug move put change replace review schedule confirm
			ensure follow reset clear search find visit fill attach reply share book order deploy roll rename switch refresh reduce
			raise lower measure monitor document prepare plan mix stir heat bake rinse let do`,
		problem: `error*, fail*, crash*, bug, broken, problem*, issue*, not working, doesn't work, does not work, won't, can't, cannot,
			unable to, stuck, wrong, outage*, down, slow, missing, lost, timed out, refused, stopped working, never arriv*, defect*`,
		request:  `please, could you, can you, would you, i need, we need, i want, i'd like, i would like, need you to, asking for, request*, help me`,
		decision: `decided, decision*, agreed, we will, we'll, let's go with, chose, approved, going with, settled on, concluded, signed off, voted`,
		must: `should, must, need to, needs to, have to, has to, make sure, you can, you could, you might, i suggest, i recommend, it helps, will need, remember to, be sure to,
			by monday, by tuesday, by wednesday, by thursday, by friday`,
	},
	{
		tag: "nb", ordinals: true,
		stop: `og i jeg er at en et den til av på for med som har om å du han hun oss seg vi ikke kan ble var skal så
			men fra ut ved etter bare nå når hadde over også opp der mer inn noe noen bli blir vil eller mot være hvis skulle kunne meg
			min mitt mine din ditt dine deg sin sitt sine dem deres vår vårt våre selv få får ja nei hei takk tusen hjelpen hjelp veldig litt mye alle hver ny
			før under mellom siden fordi her da kom gå går ser god dag hilsen ok bra gjerne de`,
		open: `det dette den denne disse de han hun men så da derfor likevel og eller som slik ellers dessuten`,
		ask:  `hva hvorfor hvordan når hvor hvem hvilken hvilke kan er har skal vil`,
		do: `åpne lukk klikk trykk velg sjekk kjør start stopp vennligst sett ring send installer oppdater skriv gå slå fjern slett legg lag
			bruk prøv vent spør kontakt husk unngå hold ta les test logg kopier lagre last koble flytt bytt følg tilbakestill søk finn fyll
			bestill sørg gi bekreft`,
		problem: `feil*, krasj*, problem*, virker ikke, fungerer ikke, får ikke, kan ikke, klarer ikke, ødelagt, nede, treg*, mangler, mistet,
			stopper, stoppet, henger, galt, tidsavbrudd, forsinke*`,
		request:  `kan du, kunne du, vennligst, trenger, ønsker, vil gjerne, be om, hjelp, vær så snill, ber om`,
		decision: `besluttet, bestemte, bestemt, vedtatt, vedtak*, enige om, enig om, valgte, godkjent, konkluderte, går for, skal vi, ble enige`,
		must:     `bør, må, sørg for, husk, pass på`,
	},
	{
		tag: "da", ordinals: true,
		stop: `og i jeg er at en et den til af på for med som har om du han hun os sig vi ikke kan blev var skal så men fra ud ved
			efter kun nu når havde over også op der mere ind noget nogle nogen blive bliver vil eller mod være hvis skulle kunne mig min mit
			mine din dit dine dig sin sit sine dem deres vores selv få får ja nej hej tak tusind hjælpen hjælp meget lidt alle hver ny før under mellem siden
			fordi her da god hilsen ok gerne de`,
		open: `det dette den denne disse de han hun men så derfor alligevel og eller som sådan ellers desuden`,
		ask:  `hvad hvorfor hvordan hvornår hvor hvem hvilken hvilke kan er har skal vil`,
		do: `åbn luk klik tryk vælg tjek kør start stop venligst sæt ring send installer opdater skriv gå slå fjern slet læg lav brug prøv vent
			spørg kontakt husk undgå hold tag læs test log kopier gem hent tilslut flyt skift følg nulstil søg find udfyld bestil sørg giv
			bekræft`,
		problem:  `fejl*, problem*, virker ikke, fungerer ikke, kan ikke, nede, langsom*, mangler, mistet, ødelagt, går i stå, forsinke*`,
		request:  `kan du, kunne du, venligst, har brug for, ønsker, vil gerne, hjælp, vær venlig, beder om`,
		decision: `besluttet, beslutning*, bestemte, vedtaget, enige om, valgte, godkendt, konkluderede`,
		must:     `bør, skal du, må, sørg for, husk`,
	},
	{
		tag: "sv", ordinals: true,
		stop: `och i jag är att en ett den till av på för med som har om du han hon oss sig vi inte kan blev var ska så men från ut
			vid efter bara nu när hade över också upp där mer in något några någon bli blir vill eller mot vara skulle kunde mig min mitt
			mina din ditt dina dig sin sitt sina dem deras vår vårt våra själv få får ja nej hej tack hjälpen mycket lite alla varje ny före under
			mellan sedan eftersom här då bra ok gärna de`,
		open: `det detta den denna dessa de han hon men så därför ändå och eller som annars dessutom`,
		ask:  `vad varför hur när var vem vilken vilka kan är har ska vill`,
		do: `öppna stäng klicka tryck välj kontrollera kör vänligen starta stoppa sätt ring skicka installera uppdatera skriv gå slå ta läs lägg
			skapa använd prova vänta fråga kontakta undvik håll testa logga kopiera spara hämta anslut flytta byt följ återställ sök hitta fyll
			beställ se ge bekräfta`,
		problem:  `fel*, problem*, fungerar inte, funkar inte, kan inte, nere, långsam*, saknas, tappade, trasig*, kraschar, hänger`,
		request:  `kan du, kunde du, vänligen, behöver, önskar, vill gärna, hjälp, be om`,
		decision: `beslutade, beslut*, bestämde, överens, valde, godkänt, godkände`,
		must:     `bör, måste, se till, kom ihåg`,
	},
	{
		tag: "de", ordinals: true,
		stop: `der die das den dem des ein eine einen einem einer eines und oder in im an am auf aus bei mit nach von vom zu zum zur
			für über unter vor durch um als wie ist sind war waren wird werden wurde wurden hat haben hatte hatten nicht kein keine nur auch
			noch schon sehr so dass wenn weil ob sich ich du er wir ihr mich mir dich uns euch ihnen sein seine seinen ihre ihren mein meine unser
			unsere kann können konnte soll sollen sollte muss müssen will wollen würde möchte bis seit mehr alle alles man etwas hier dort dann
			da ja nein hallo danke bitte gut gern ok gegen ohne zwischen bereits immer jetzt heute beim bin`,
		open: `er sie es das dies dieser diese dieses diesen diesem aber doch deshalb daher darum dann dadurch dafür dabei damit trotzdem außerdem
			und oder denn sonst jedoch`,
		ask: `was warum wieso weshalb wie wann wo wer welche welcher welches wohin kann können ist sind hat haben`,
		do: `bitte öffnen schließen klicken drücken wählen prüfen starten stoppen setzen rufen senden schicken installieren aktualisieren geben
			gehen entfernen löschen nutzen verwenden versuchen warten fragen achten lesen testen melden kopieren speichern laden verbinden trennen
			ziehen stecken ändern folgen suchen finden öffne schließe klicke drücke wähle prüfe starte stoppe rufe sende schicke gib geh gehe
			entferne lösche nutze verwende versuche warte frag frage lies teste melde kopiere speichere lade verbinde trenne ändere 			stellen stelle bestätigen`,
		problem: `fehler*, problem*, funktioniert nicht, geht nicht, kann nicht, lässt sich nicht, abgestürzt, stürzt, kaputt, defekt*, langsam*,
			fehlt, fehlen, ausfall*, ausgefallen, hängt, störung*, verloren, falsch*, verzöger*`,
		request:  `bitte, können sie, könnten sie, kannst du, könntest du, ich brauche, wir brauchen, ich möchte, wir möchten, benötige*, hilfe, bitten um`,
		decision: `beschlossen, beschluss*, entschieden, entscheidung*, vereinbart, geeinigt, einigten, genehmigt, festgelegt, entschied`,
		must:     `sollte, sollten, muss, müssen, müsst, achten sie, denken sie, stellen sie sicher, ist zu`,
	},
	{
		tag: "nl",
		stop: `de het een en of in op aan voor met van naar bij uit door over onder om te als is zijn was waren wordt worden werd heeft
			hebben had niet geen maar ook nog al zeer zo dat die wat er ik je jij u we wij me mij ons hun hen mijn jouw uw onze kan kunnen
			zal zullen moet wil zou meer alle alles men iets hier daar dan toen ja nee hallo bedankt graag goed ok tegen tussen sinds na tot`,
		open: `het dit dat deze die hij zij ze maar dus daarom toch en of want daarna bovendien anders`,
		ask:  `wat waarom hoe wanneer waar wie welke kan kunt is heeft`,
		do: `open sluit klik druk kies controleer start stop zet bel stuur installeer werk voer typ ga verwijder voeg maak gebruik probeer
			wacht vraag lees test meld kopieer sla download verbind wijzig volg reset zoek vul bestel neem zorg bevestig`,
		problem:  `fout*, probleem, problemen, werkt niet, kan niet, lukt niet, kapot, traag, ontbreekt, storing*, vastgelopen, verloren`,
		request:  `alstublieft, alsjeblieft, kunt u, kun je, zou je, ik wil graag, ik heb nodig, nodig, hulp, verzoek*, graag`,
		decision: `besloten, besluit*, afgesproken, gekozen, akkoord, goedgekeurd, overeengekomen`,
		must:     `moet, moeten, zorg dat, vergeet niet, dient`,
	},
	{
		tag: "fr",
		stop: `le la les l' un une des du de d' et ou à au aux en dans sur sous pour par avec sans vers chez entre que qui quoi dont où ne
			pas plus moins très si est sont était étaient être été a ont avait avoir ai as je tu on nous vous me moi te toi se soi son sa ses
			mon ma mes ton ta tes notre nos votre vos leur leurs lui eux y c'est n'est qu'il j'ai peut peuvent doit fait faire tout tous toute
			toutes même aussi bien déjà encore ici là oui non bonjour merci salut après avant depuis jusqu'à bon`,
		open: `il elle ils elles cela ceci ce cet cette ces mais donc alors ainsi pourtant cependant or et ou car puis ensuite sinon celui celle`,
		ask:  `pourquoi comment quand où qui que quel quelle quels quelles combien est-ce`,
		do: `veuillez ouvrez fermez cliquez appuyez choisissez sélectionnez vérifiez redémarrez lancez arrêtez mettez appelez envoyez installez
			saisissez allez supprimez ajoutez créez utilisez essayez attendez demandez contactez lisez testez copiez enregistrez téléchargez
			connectez déconnectez débranchez changez suivez cherchez remplissez commandez assurez confirmez prenez évitez ouvre ferme clique
			vérifie lance mets appelle envoie`,
		problem: `erreur*, échou*, échec*, problème*, ne marche pas, ne fonctionne pas, impossible*, bloqué*, cassé*, panne*, lent*, manque*,
			perdu*, plant*, ne peut pas, défaut*, retard*`,
		request:  `s'il vous plaît, s'il te plaît, pouvez-vous, pourriez-vous, peux-tu, j'ai besoin, nous avons besoin, je voudrais, j'aimerais, merci de, aidez, veuillez`,
		decision: `décidé*, décision*, convenu, d'accord, choisi*, approuvé*, validé*, retenu*, adopté*`,
		must:     `doit, doivent, devez, il faut, faut, devrait, veillez, pensez à, n'oubliez pas`,
	},
	{
		tag: "es",
		stop: `el la los las un una unos unas y e o u de del a al en con por para sin sobre entre hasta desde hacia que quien cual como si no
			ni más menos muy ya es son era eran ser sido está están estaba estar fue fueron ha han había haber he hay yo tú él nos me te se le
			les lo mi mis tu tus su sus nuestro nuestra nuestros puede pueden podemos debe hace hacer tiene tienen todo todos toda todas también
			solo sólo bien aquí ahí hola gracias buenos días buenas sí otra otro cada cuando donde porque ok`,
		open: `esto eso esta este estos estas ese esa ella ellos ellas pero así entonces luego además y o pues aunque aquello sino después`,
		ask:  `qué por cómo cuándo dónde quién cuál cuáles cuánto puede puedo`,
		do: `abra abre cierre cierra haga haz pulse pulsa elija elige seleccione selecciona compruebe comprueba revise revisa reinicie reinicia
			inicie inicia detenga ponga pon llame llama envíe envía instale instala actualice actualiza escriba escribe vaya ve elimine elimina
			añada añade cree crea use usa utilice utiliza intente intenta espere espera pregunte contacte lea lee pruebe prueba copie copia guarde
			guarda descargue conecte desconecte cambie cambia siga sigue busque busca rellene confirme confirma asegúrese`,
		problem: `error*, fall*, problema*, no funciona, no puedo, no se puede, imposible, roto, rota, caído, caída, lento, lenta, falta, perdido,
			bloquead*, avería*, retras*`,
		request:  `por favor, puede usted, podría, podrías, puedes, necesito, necesitamos, quiero, quisiera, me gustaría, ayuda*, solicit*`,
		decision: `decidi*, decisión, acord*, elegi*, aprob*, de acuerdo, conclu*`,
		must:     `debe, deben, debería, hay que, tiene que, tienen que, asegúrese, recuerde, no olvide`,
	},
	{
		tag: "it",
		stop: `il lo la i gli le un uno una e ed o di del dello della dei degli delle a al allo alla ai agli alle da dal dalla in nel nella
			nei con su sul sulla per tra fra che chi cui come se non né più meno molto già è sono era erano essere stato stata ha hanno aveva
			avere ho io tu lui lei noi voi loro mi ti si ci vi mio mia tuo tua suo sua nostro nostra può possono deve fa fare tutto tutti tutta
			tutte anche solo bene qui là ciao grazie buongiorno sì ogni quando dove perché dopo prima ok c'è`,
		open: `questo questa questi queste quello quella esso essa ma quindi così allora però inoltre e o perciò altrimenti ciò poi`,
		ask:  `cosa perché come quando dove chi quale quali quanto può posso`,
		do: `apri apra chiudi clicca premi scegli seleziona controlla verifica riavvia avvia ferma metti chiama invia installa aggiorna scrivi
			vai elimina aggiungi crea usa prova attendi aspetta chiedi contatta leggi copia salva scarica collega scollega cambia segui cerca
			compila conferma assicurati evita aprite chiudete cliccate controllate`,
		problem:  `errore, errori, fallit*, problem*, non funziona, non riesco, non riesce, non si può, impossibile, rotto, guasto, lento, lenta, manca, perso, bloccat*, ritard*`,
		request:  `per favore, per piacere, puoi, può aiutarmi, potrebbe, potresti, ho bisogno, abbiamo bisogno, vorrei, vorremmo, aiuto, richied*`,
		decision: `deciso, decisione, decisioni, concordato, scelto, approvato, d'accordo, stabilito`,
		must:     `deve, devono, dovrebbe, bisogna, occorre, assicurati, ricorda, è necessario`,
	},
	{
		tag: "pt",
		stop: `o a os as um uma uns umas e ou de do da dos das em no na nos nas por pelo pela para com sem sobre entre até desde que quem qual
			como se não nem mais menos muito já é são era eram ser sido está estão estava estar foi foram há tem têm tinha ter eu tu você nós me
			te lhe meu minha seu sua seus suas nosso nossa pode podem deve faz fazer tudo todos toda todas também só bem aqui ali olá obrigado
			obrigada bom dia sim cada quando onde porque depois antes ao à aos ok`,
		open: `isto isso este esta estes estas esse essa ele ela eles elas mas assim então portanto além e ou porém aquilo senão`,
		ask:  `por como quando onde quem qual quais quanto pode posso`,
		do: `abra abre feche clique pressione escolha selecione verifique reinicie inicie pare coloque ligue envie instale atualize escreva
			digite vá remova exclua adicione crie use utilize tente espere aguarde pergunte contate leia teste copie salve guarde baixe conecte
			desconecte mude siga procure preencha confirme certifique evite`,
		problem:  `erro, erros, falh*, problema*, não funciona, não consigo, não consegue, não posso, impossível, quebrad*, lento, lenta, falta, perdi*, travad*, queda, atras*`,
		request:  `por favor, você pode, poderia, podia, preciso, precisamos, quero, gostaria, ajuda*, solicit*, peço`,
		decision: `decidi*, decisão, decisões, combinad*, acord*, escolhe*, aprovad*, conclu*`,
		must:     `deve, devem, deveria, é preciso, tem que, têm que, certifique-se, lembre-se`,
	},
	{
		tag: "fi", ordinals: true,
		stop: `ja on ei se että oli mutta kun niin kuin myös joka jotka jonka mitä ovat olen olet olemme ole olla hän me te he minä sinä minun
			sinun meidän teidän heidän hänen sen sitä siitä siinä siihen nyt vain vielä jo tai eli jos kanssa ennen jälkeen aikana kuten koska voi
			voin voimme pitää täytyy tulee hyvin enemmän kaikki kaikkia joku jokin mikään ei en emme eivät kiitos hei moi terve kyllä no ok hyvää
			ollut olisi voisi voisitko sitten siis`,
		open: `se tämä nämä ne nuo tuo hän he mutta joten siksi ja tai silti lisäksi muuten kuitenkin`,
		ask:  `mikä mitä miksi miten milloin missä kuka kumpi minkä voiko voinko voitko onko`,
		do: `avaa sulje napsauta paina valitse tarkista käynnistä pysäytä aseta soita lähetä asenna päivitä kirjoita mene poista lisää luo
			käytä kokeile odota kysy lue testaa kopioi tallenna lataa yhdistä irrota vaihda seuraa etsi täytä tilaa varmista vahvista ota 			siirry kirjaudu`,
		problem:  `virhe*, ongelma*, ei toimi, ei onnistu, kaatu*, rikki, hidas, hitaasti, puuttu*, vika, vikaa, häiriö*, jumi*, kadonnut, myöhäs*, viiväst*`,
		request:  `voitko, voisitko, voisitteko, tarvitsen, tarvitsemme, haluaisin, pyydän, pyydämme, ole hyvä, apua`,
		decision: `päätet*, päätti*, päätös, päätöksen, sovittiin, sovimme, valittiin, hyväksy*`,
		must:     `pitää, täytyy, tulisi, kannattaa, muista, varmista, pitäisi`,
	},
	{
		tag: "pl",
		stop: `i w we z ze na do o od po za przez dla przy pod nad że się nie jest są był była było były być to co jak ale lub oraz a ten ta te
			tego tej tych tym tę ja ty my wy mnie mi mu jej jego ich nam was nas pan pani czy już tylko też także bardzo może mogę można ma mam
			mamy miał który która które których kiedy gdy gdzie jeśli więc bo tak no cześć dzień dobry dziękuję dzięki proszę ok jeszcze tu tam
			teraz każdy wszystkie wszystko przed między`,
		open: `to ten ta te on ona oni one ale więc jednak dlatego i lub potem wtedy poza ponadto oraz natomiast inaczej`,
		ask:  `co dlaczego jak kiedy gdzie kto który która czy ile`,
		do: `otwórz zamknij kliknij naciśnij wybierz sprawdź uruchom zatrzymaj ustaw zadzwoń wyślij zainstaluj zaktualizuj wpisz przejdź usuń
			dodaj utwórz użyj spróbuj poczekaj zapytaj przeczytaj przetestuj skopiuj zapisz pobierz podłącz odłącz zmień szukaj znajdź wypełnij
			zamów upewnij potwierdź weź unikaj zaloguj`,
		problem:  `błąd, błęd*, problem*, nie działa, nie mogę, nie można, awari*, zepsut*, wolno, brak*, zgubi*, zawiesz*, opóźni*`,
		request:  `proszę, czy możesz, czy mógłbyś, czy mogłaby, potrzebuję, potrzebujemy, chciałbym, chciałabym, pomoc*, prosimy`,
		decision: `zdecydowa*, decyzj*, ustali*, uzgodni*, wybrali*, zatwierdz*, postanowi*`,
		must:     `należy, trzeba, powinien, powinna, powinniśmy, musisz, musimy, pamiętaj, upewnij się`,
	},
	{
		tag: "ar",
		stop: `من في على إلى عن مع هذا هذه ذلك تلك التي الذي الذين ما لا لم لن قد كان كانت يكون تكون هو هي هم نحن أنا أنت أن إن أو ثم بعد قبل
			كل بعض عند حتى إذا كما بين غير أي لقد منذ حيث ليس فقط أيضا جدا هناك هنا نعم شكرا مرحبا أهلا السلام عليكم الآن له لها لهم به بها
			فيه فيها عليه عليها منه منها لكن يا كنت لدي لدينا وقد وكان وهو وهي كذلك`,
		open: `هذا هذه ذلك تلك هو هي هم لكن ولكن لذلك ثم وهو وهي وهذا كما أيضا بالتالي`,
		ask:  `ما ماذا لماذا كيف متى أين من هل أي كم`,
		do: `افتح أغلق اضغط انقر اختر تحقق تأكد شغل أعد أوقف ضع اتصل أرسل ثبت حدث اكتب اذهب احذف أضف أنشئ استخدم جرب انتظر اسأل اقرأ اختبر
			انسخ احفظ حمل غير اتبع ابحث املأ اطلب قم تجنب سجل خذ`,
		problem: `خطأ, مشكلة, المشكلة, مشاكل, لا يعمل, لا تعمل, لا أستطيع, لا يمكن, لا يمكنني, تعطل*, عطل, العطل, بطيء, بطيئة, مفقود, فشل*, توقف*,
			لم تصل, لم يصل, تأخر*, تالف*`,
		request:  `من فضلك, من فضلكم, رجاء, الرجاء, أرجو, نرجو, هل يمكنك, هل يمكنكم, أحتاج, نحتاج, أريد, نريد, يرجى, أطلب, مساعدة`,
		decision: `قررنا, قرر, قررت, القرار, اتفقنا, اتفق*, وافق*, تقرر, اخترنا, اعتمد*`,
		must:     `يجب, ينبغي, عليك, لا بد, تأكد من, لا تنس, يمكنك`,
	},
	{
		tag:  "ja",
		stop: `場合 必要 可能 以上 以下 以前 以降 今回 今日 皆様 本当`,
		open: `これ それ あれ この その しかし だから そして また でも ただ`,
		problem: `エラー,問題,不具合,動かない,動きません,できない,できません,失敗,故障,障害,遅い,遅れ,壊れ,落ち,止ま,繋がらない,つながらない,
			つながりません,届かない,届いていません,消え,表示されない,表示されません`,
		request:  `お願い,いただけ,ください,下さい,ほしい,欲しい,たいのですが,頂け`,
		decision: `決定,決め,決ま,合意,採用する,承認,ことにし,ことになり`,
		must:     `してください,て下さい,てください,ましょう,べき,必要があります,なければ,確認し,必ず`,
	},
	{
		tag:      "ko",
		stop:     `그 이 저 것 수 등 및 또는 그리고 하지만 그러나 그래서 때문에 대한 위해 통해 있는 있습니다 합니다 했습니다 입니다 안녕하세요 감사합니다 네 아니요 좀 더 잘`,
		open:     `그리고 하지만 그러나 그래서 이것은 그것은 이는 또한 따라서 그런데`,
		ask:      `왜 어떻게 언제 어디 어디서 누가 무엇 무엇을 어떤`,
		problem:  `오류,문제,에러,안 됩니다,안됩니다,안 돼,되지 않,실패,고장,장애,느립,느려,멈추,멈췄,끊,사라,없어졌,할 수 없,지연`,
		request:  `부탁,주세요,해 주실,해주실,주시겠,필요합니다,싶습니다,바랍니다,도와`,
		decision: `결정,합의,승인,하기로,확정,채택`,
		must:     `하세요,하십시오,으세요,해야,주십시오,먼저,다음으로,마지막으로`,
	},
	{
		tag: "zh",
		stop: `我们 你们 他们 她们 它们 这个 那个 这些 那些 什么 怎么 可以 没有 一个 一些 已经 还是 但是 因为 所以 如果 就是 不是 也是 都是 或者 以及 这样 那么 现在 时候 自己
			需要 谢谢 您好 你好 請問 请问 我們 你們 他們 這個 這些 沒有 已經 還是 因為 個人`,
		open:     `这 那 但 它 他 她 所以 因此 然后`,
		problem:  `错误,錯誤,问题,問題,故障,失败,失敗,无法,無法,不能,崩溃,当机,打不开,不工作,丢失,遺失,太慢,变慢,卡住,坏了,异常,没收到,没有收到,延误,中断`,
		request:  `请,請,麻烦,麻煩,能不能,能否,可否,希望,帮我,幫我,帮忙,申请`,
		decision: `决定,決定,同意,批准,一致,选定,确定采用,通过了,商定,敲定`,
		must:     `应该,應該,必须,必須,需要,务必,记得,首先,然后,接着,最后,点击,打开,检查,确认,选择,重启,请先,不要`,
	},
}
